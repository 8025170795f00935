package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
	"novelgate/migrations"
)

// errPromoted ends the service of a standby when the standby is promoted.
var errPromoted = errors.New("the database server was promoted: this process has only served readers; restart it, " +
	"and it is a full service")

// errReadersOnly is why the service of a standby is not ready.
var errReadersOnly = errors.New("the database server is a standby: this service serves readers only")

// serveReadersOnly makes the service serve only readers, after open has failed with database.ErrStandby. It checks that
// the database of the standby can serve them.
func (db *databaseServer) serveReadersOnly(ctx context.Context) error {
	db.isStandby = true
	if err := migrations.CheckStandby(ctx, db.pools.General); err != nil {
		return fmt.Errorf("check the standby: %w", err)
	}
	if err := database.CheckSandbox(ctx, db.pools.General, db.isSandbox); err != nil {
		return err
	}
	db.logger.WarnContext(ctx, "The database server is a standby: only readers are served. Commands, staff, partners and "+
		"auditors get 503. When it is promoted, this process ends with exit code 1, so that it is started again.")
	return nil
}

// standbyPause is the time between checks for a promotion.
const standbyPause = time.Second

// awaitPromotion fails with errPromoted when the standby is promoted. It returns nil when ctx ends.
func (db *databaseServer) awaitPromotion(ctx context.Context) error {
	for eventlog.Sleep(ctx, standbyPause) {
		standby := true // also while the server does not answer
		_ = db.pools.General.QueryRow(ctx, `SELECT pg_is_in_recovery()`).Scan(&standby)
		if !standby {
			return errPromoted
		}
	}
	return nil
}

// keyRoutes are the prefixes of the routes that need a key.
var keyRoutes = []string{"/api/integrations", "/api/admin", "/api/events", "/api/streams", "/api/access-log"}

// readersOnly makes the service of a standby refuse commands, and requests to all routes that need a key: a standby
// cannot record what auditors read, and learns late of a revoked key.
func (s *service) readersOnly(kit *httpkit.Kit) mux.MiddlewareFunc {
	return func(next http.Handler) http.Handler {
		if !s.db.isStandby {
			return next
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			isBelow := func(prefix string) bool { return strings.HasPrefix(r.URL.Path, prefix) }
			if !isRead(r) || slices.ContainsFunc(keyRoutes, isBelow) {
				kit.Fail(w, r, problem.ReadersOnly(httpkit.RetryAfter))
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}
