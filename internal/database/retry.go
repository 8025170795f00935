package database

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Retry runs query. If the pool's connection is dead, it runs query again on a new connection: after a restart of the
// database all connections of a pool are dead. query must be idempotent.
func Retry(ctx context.Context, pool *pgxpool.Pool, query func() error) error {
	err := query()
	if ctx.Err() != nil || !connectionLost(err) {
		return err
	}
	pool.Reset()
	return query()
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
