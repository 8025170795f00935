package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/problem"
	"novelgate/internal/web"
	"novelgate/migrations"
)

// errPromoted ends the service of a standby when the standby is promoted.
var errPromoted = errors.New("the database server was promoted: this process has only served readers; restart it, " +
	"and it is a full service")

// errReadersOnly is why the service of a standby is not ready.
var errReadersOnly = errors.New("the database server is a standby: this service serves readers only")

// openStandby checks that the database of a standby can serve readers.
func (db *databaseServer) openStandby(ctx context.Context) error {
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

// refuseCommands answers the routes that need a key: a standby cannot record what auditors read, and learns late of a
// revoked key.
func refuseCommands(router *mux.Router, kit *web.Kit) {
	for _, prefix := range []string{
		"/api/integrations", "/api/admin", "/api/events", "/api/streams", "/api/access-log",
	} {
		router.PathPrefix(prefix).HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			kit.Fail(w, r, problem.ReadersOnly(web.RetryAfter))
		})
	}
}
