package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5"

	"novelgate/commands/committer"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/pgserver"
	"novelgate/internal/problem"
	"novelgate/internal/web"
	"novelgate/migrations"
	"novelgate/projections"
)

type migrateCommand struct {
	CommonFlags
	BackupFlag
}

// run applies pending migrations. It starts the embedded database if necessary.
func (c *migrateCommand) run(ctx context.Context, env *environment) error {
	url, err := env.startDatabase(ctx)
	if err != nil {
		return err
	}
	migrated, err := migrations.Apply(ctx, url)
	return env.show(result{migrated, func(env *environment) {
		for _, step := range migrated.Applied {
			fmt.Fprintln(env.stdout, "applied", step)
		}
		for _, notice := range migrated.Notices {
			fmt.Fprintln(env.stdout, "notice:", notice)
		}
		fmt.Fprintln(env.stdout, "schema version", migrated.Version)
	}}, err)
}

// restartPause is the time between attempts to restart an embedded server.
const restartPause = 500 * time.Millisecond

// databaseServer is the database of a service. The server may be embedded.
type databaseServer struct {
	url    string
	pools  *database.Pools
	tracer pgx.QueryTracer // of statements; nil: none
	logger *slog.Logger

	isSandbox  bool // what the database must be marked as
	isStandby  bool // only readers are served
	isNew      bool // the database was empty before this start
	isEmbedded bool // the database is an embedded server of this process
	config     pgserver.Config
	server     *pgserver.Server // the running embedded server; nil without one
}

// open starts or finds the database, checks its settings, and migrates the schema. On a standby it sets isStandby, and
// checks that the schema can serve readers.
func (db *databaseServer) open(ctx context.Context, allowUnsafe bool) (err error) {
	ctx, watch := database.StartWatch(ctx, func(cause string) {
		db.logger.WarnContext(ctx, "waiting for the database", slog.String("for", cause))
	})
	defer watch.Stop()
	if db.url == "" {
		if db.server, err = pgserver.Start(ctx, db.config); err != nil {
			if errors.Is(err, pgserver.ErrInUse) {
				err = fmt.Errorf("%w, perhaps `novelgate serve`: stop that one; a second replica takes the same --database-url", err)
			}
			return err
		}
		db.isEmbedded, db.url = true, db.server.URL()
	}
	if db.pools, err = database.OpenTraced(ctx, db.url, db.tracer); err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	if err := database.CheckSessions(ctx, db.pools.Append); err != nil {
		return fmt.Errorf("check the database: %w", err)
	}
	err = database.CheckServer(ctx, db.pools.Append, allowUnsafe)
	if errors.Is(err, database.ErrStandby) {
		return db.openStandby(ctx)
	}
	if err != nil {
		return fmt.Errorf("check the database: %w", err)
	}
	migrated, err := migrations.Apply(ctx, db.url)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	db.isNew = slices.Contains(migrated.Applied, "00001_rights")
	for _, notice := range migrated.Notices {
		db.logger.WarnContext(ctx, "a notice of the migrations", slog.String("notice", notice))
	}
	if err := database.Claim(ctx, db.pools.General, db.isSandbox); err != nil {
		return err
	}
	merges, err := projections.RefoldTitles(ctx, db.pools.General)
	if err != nil {
		return err
	}
	for _, merge := range merges {
		db.logger.WarnContext(ctx, "two titles have become the same under newer Unicode tables",
			slog.String("title", merge.FoldedTitle), slog.String("kept", merge.Kept.String()),
			slog.String("hidden", merge.Hidden.String()))
	}
	return nil
}

// watch restarts an embedded server that has died, until ctx ends. While it is down, requests get 503.
func (db *databaseServer) watch(ctx context.Context) {
	for db.isEmbedded && ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-db.server.Done():
		}
		db.logger.ErrorContext(ctx, "the embedded database has stopped; starting it again")
		// Stop frees the data directory for the next start.
		if err := db.server.Stop(ctx); err != nil {
			db.logger.WarnContext(ctx, "the embedded database did not stop cleanly", slog.Any("error", err))
		}
		for ctx.Err() == nil {
			restarted, err := pgserver.Start(ctx, db.config)
			if err == nil {
				db.server = restarted
				break
			}
			db.logger.ErrorContext(ctx, "the embedded database does not start",
				slog.Any("error", fmt.Errorf("%w: %w", committer.ErrUnavailable, err)))
			eventlog.Sleep(ctx, restartPause)
		}
	}
}

// stop closes the connections and stops an embedded server that this process has started. watch must have returned.
func (db *databaseServer) stop(ctx context.Context) {
	if db.pools != nil {
		db.pools.Close()
	}
	if db.server == nil {
		return
	}
	if err := db.server.Stop(ctx); err != nil {
		db.logger.ErrorContext(ctx, "the embedded database did not stop cleanly", slog.Any("error", err))
	}
}

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
