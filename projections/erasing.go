package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Whoever erases an author holds an advisory lock of its session, which others may hold, too. The number is that of
// hashtextextended.
const (
	announceErasureSQL = `SELECT pg_advisory_lock_shared(hashtextextended('novelgate erasure', 0))`

	erasureUnderWaySQL = `SELECT EXISTS (SELECT FROM pg_locks
WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (classid::bigint << 32 | objid::bigint) = hashtextextended('novelgate erasure', 0))`
)

// withdrawTimeout bounds the goodbye to a database that has gone silent.
const withdrawTimeout = 5 * time.Second

// AnnounceErasure lets everybody know that the log loses words of an author which tables still hold, until withdraw is
// called or the process dies. It opens a connection of its own: whoever erases may have taken the last one of the pool.
func AnnounceErasure(ctx context.Context, pool *pgxpool.Pool) (withdraw func(), err error) {
	conn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	if err != nil {
		return nil, fmt.Errorf("connect to announce an erasure: %w", err)
	}
	withdraw = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
		defer cancel()
		conn.Close(ctx) //nolint:errcheck // the lock goes with the connection, whatever becomes of the goodbye
	}
	if _, err := conn.Exec(ctx, announceErasureSQL); err != nil {
		withdraw()
		return nil, fmt.Errorf("announce an erasure: %w", err)
	}
	return withdraw, nil
}

// ErasureUnderWay tells whether somebody has announced an erasure and not withdrawn it yet.
func ErasureUnderWay(ctx context.Context, pool *pgxpool.Pool) (underWay bool, err error) {
	if err := pool.QueryRow(ctx, erasureUnderWaySQL).Scan(&underWay); err != nil {
		return false, fmt.Errorf("look for erasures under way: %w", err)
	}
	return underWay, nil
}
