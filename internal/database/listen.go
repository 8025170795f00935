package database

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// relistenPause is the wait before a lost listening connection is opened again.
const relistenPause = 250 * time.Millisecond

// Listen calls the handler of a channel for each of its notifications until ctx ends. After every connection it calls
// all handlers once with an empty payload, because notifications may have been missed. Handlers must not block.
func Listen(
	ctx context.Context, config *pgx.ConnConfig, logger *slog.Logger, handlers map[string]func(payload string),
) {
	for ctx.Err() == nil {
		if err := listen(ctx, config, handlers); err != nil && ctx.Err() == nil {
			logger.WarnContext(ctx, "listening connection lost", slog.Any("error", err))
		}
		select {
		case <-time.After(relistenPause):
		case <-ctx.Done():
		}
	}
}

func listen(ctx context.Context, config *pgx.ConnConfig, handlers map[string]func(string)) error {
	config = config.Copy()
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	config.RuntimeParams["application_name"] = "novelgate-listen"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect to listen: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the connection is discarded
	for channel := range handlers {
		if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
			return fmt.Errorf("listen to %s: %w", channel, err)
		}
	}
	for _, handle := range handlers {
		handle("")
	}
	for {
		notification, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("wait for notification: %w", err)
		}
		if handle, ok := handlers[notification.Channel]; ok {
			handle(notification.Payload)
		}
	}
}

// Retry runs query. If the pool's connection is dead, it runs query again on a new connection: after a restart of the
// database all connections of a pool are dead. query must be idempotent; again is true when the first attempt may have
// been executed.
func Retry(ctx context.Context, pool *pgxpool.Pool, query func(again bool) error) error {
	err := query(false)
	if ctx.Err() != nil || !connectionLost(err) {
		return err
	}
	pool.Reset()
	return query(true)
}

// connectionLost reports whether err means that an established connection broke. Failures to connect, time-outs and
// errors of a statement are not lost connections.
func connectionLost(err error) bool {
	var connect *pgconn.ConnectError
	var refusal *pgconn.PgError
	var network *net.OpError
	switch {
	case err == nil, errors.As(err, &connect), pgconn.Timeout(err):
		return false
	case errors.As(err, &refusal):
		return strings.HasPrefix(refusal.Code, "57P0") // the server is shutting down, or this session was terminated
	}
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		pgconn.SafeToRetry(err)
}

// Querier reads: a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Collect returns the rows of a query. The error names what was read.
func Collect[T any](
	ctx context.Context, db Querier, what string, scan pgx.RowToFunc[T], sql string, args ...any,
) ([]T, error) {
	rows, _ := db.Query(ctx, sql, args...) // CollectRows has the error
	found, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return found, nil
}

// UTC converts times that were read from the database, which have the local time zone; nil stays nil.
func UTC(times ...*time.Time) {
	for _, t := range times {
		if t != nil {
			*t = t.UTC()
		}
	}
}

// Execer executes statements without result rows: a pool, a connection, a transaction, or a batch of queued statements.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// DB reads and writes: a pool, a connection or a transaction.
type DB interface {
	Querier
	Execer
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
	CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error)
}

// Beginner begins transactions: a pool or a connection.
type Beginner interface {
	DB
	Begin(ctx context.Context) (pgx.Tx, error)
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}
