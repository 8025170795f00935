package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"novelgate/internal/database"
	"novelgate/internal/pgserver"
	"novelgate/migrations"
	"novelgate/projections"
)

// restartPause is how long to wait before an embedded server that has died is started again.
const restartPause = 500 * time.Millisecond

// databaseServer is the database that the service runs on.
type databaseServer struct {
	url   string
	pools *database.Pools

	isEmbedded bool // this process started or found an embedded server
	config     pgserver.Config
	mu         sync.Mutex
	server     *pgserver.Server // the embedded one as it runs now; nil when there is none
}

// openDatabase starts or finds the database, brings its schema up to date and refuses one that is not fit.
func (c *ServeCommand) openDatabase(ctx context.Context, logger *slog.Logger) (_ *databaseServer, err error) {
	db := &databaseServer{url: c.DatabaseURL, config: pgserver.Config{DataDir: c.DataDir, Logger: logger}}
	defer func() {
		if err != nil {
			db.stop(context.WithoutCancel(ctx), logger)
		}
	}()
	if db.url == "" {
		if db.server, err = pgserver.Start(ctx, db.config); err != nil {
			return nil, fmt.Errorf("start the embedded database: %w", asOwner(err))
		}
		db.isEmbedded, db.url = true, db.server.URL()
	}
	if db.pools, err = database.Open(ctx, db.url, c.Lanes); err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	if scarcity := db.pools.Scarcity(); scarcity != "" {
		logger.WarnContext(ctx, "few connections", slog.String("reason", scarcity))
	}
	if err := database.CheckSessions(ctx, db.pools.Append); err != nil {
		return nil, fmt.Errorf("check the database: %w", err)
	}
	if err := database.CheckServer(ctx, db.pools.Append, c.AllowUnsafeDurability); err != nil {
		return nil, fmt.Errorf("check the database: %w", err)
	}
	migrated, err := migrations.Apply(ctx, db.url)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	for _, notice := range migrated.Notices {
		logger.WarnContext(ctx, "a migration left something out", slog.String("notice", notice))
	}
	if err := database.CheckLog(ctx, db.pools.General); err != nil {
		return nil, fmt.Errorf("check the database: %w", err)
	}
	merges, err := projections.Refold(ctx, db.pools.General)
	if err != nil {
		return nil, err
	}
	for _, merge := range merges {
		logger.WarnContext(ctx, "two titles have become the same under newer Unicode tables",
			slog.String("title", merge.FoldedTitle), slog.String("kept", merge.Kept.String()),
			slog.String("hidden", merge.Hidden.String()))
	}
	return db, nil
}

// watch starts an embedded server again when it has died. Meanwhile requests are answered with 503.
func (db *databaseServer) watch(ctx context.Context, logger *slog.Logger) error {
	if !db.isEmbedded {
		<-ctx.Done()
		return nil
	}
	server := db.server
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-server.Done():
		}
		logger.ErrorContext(ctx, "the embedded database has stopped; starting it again")
		// What is left of it holds the data directory.
		if err := server.Stop(ctx); err != nil {
			logger.WarnContext(ctx, "the embedded database did not stop cleanly", slog.Any("error", err))
		}
		for ctx.Err() == nil {
			restarted, err := pgserver.Start(ctx, db.config)
			if err == nil {
				server = restarted
				db.mu.Lock()
				db.server = server
				db.mu.Unlock()
				break
			}
			logger.ErrorContext(ctx, "the embedded database does not start", slog.Any("error", err))
			select {
			case <-time.After(restartPause):
			case <-ctx.Done():
			}
		}
	}
}

// stop closes the connections and stops an embedded server that this process has started.
func (db *databaseServer) stop(ctx context.Context, logger *slog.Logger) {
	if db.pools != nil {
		db.pools.Close()
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.server == nil {
		return
	}
	if err := db.server.Stop(ctx); err != nil {
		logger.ErrorContext(ctx, "the embedded database did not stop cleanly", slog.Any("error", err))
	}
}
