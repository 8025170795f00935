package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// ReadLoop reads the log with one connection, a thousand events at a time, and does nothing with them. It returns how
// many.
func ReadLoop(ctx context.Context, pool *pgxpool.Pool) (int, error) {
	const readSQL = `SELECT transaction_id, position, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, personal, salt, recorded_at
FROM events WHERE (transaction_id, position) > ($1, $2) ORDER BY transaction_id, position LIMIT 1000`
	conn, err := eventlog.Connect(ctx, pool.Config().ConnConfig)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx) //nolint:errcheck // there is nothing to lose
	read := 0
	for at := (events.Position{}); ; {
		rows, err := conn.Query(ctx, readSQL, at.TransactionID, at.Ordinal)
		if err != nil {
			return 0, fmt.Errorf("read: %w", err)
		}
		n := 0
		for rows.Next() {
			n++
			if n == 1000 {
				if err := rows.Scan(&at.TransactionID, &at.Ordinal, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil); err != nil {
					return 0, fmt.Errorf("read: %w", err)
				}
			}
		}
		if rows.Err() != nil {
			return 0, fmt.Errorf("read: %w", rows.Err())
		}
		read += n
		if n < 1000 {
			return read, nil
		}
	}
}

// Rebuild rebuilds a projection, as projection rebuild does, and returns how many events it read.
func Rebuild(
	ctx context.Context, pool *pgxpool.Pool, projection projections.Projection, workers int, now func() time.Time,
	progress func(rebuild.Progress),
) (int, error) {
	result, err := rebuild.Run(ctx,
		rebuild.Config{Pool: pool, Projection: projection, Workers: workers, Now: now, Progress: progress})
	if err != nil {
		return 0, err
	}
	return result.Events, nil
}

var errFailed = errors.New("the projection has failed")

// CatchUp lets a live projection that has never run follow the whole log. It returns how many events it applied.
func CatchUp(ctx context.Context, pool *pgxpool.Pool, projection projections.Projection) (int, error) {
	const pause = 20 * time.Millisecond
	runner, err := projections.NewRunner(projections.Config{
		Pool: pool, Projections: []projections.Projection{projection}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return 0, fmt.Errorf("create runner: %w", err)
	}
	end, err := eventlog.Settled(ctx, pool)
	if err != nil {
		return 0, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(running) }()
	const stateSQL = `SELECT coalesce(max(state), '') = 'failed', coalesce(bool_or((transaction_id, position) >= ($2, $3)), false) FROM projections WHERE name = $1`
	for {
		var failed, done bool
		if err := pool.QueryRow(ctx, stateSQL, projection.Name(), end.TransactionID, end.Ordinal).Scan(&failed,
			&done); err != nil {
			return 0, fmt.Errorf("look at the projection: %w", err)
		}
		if failed {
			return 0, errFailed
		}
		if done {
			break
		}
		select {
		case err := <-ended:
			return 0, err
		case <-time.After(pause):
		}
	}
	stop()
	if err := <-ended; err != nil {
		return 0, err
	}
	var n int
	if err := pool.QueryRow(ctx, `SELECT count(*) FROM events`).Scan(&n); err != nil {
		return 0, fmt.Errorf("count events: %w", err)
	}
	return n, nil
}
