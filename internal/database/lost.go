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

// Retry runs query, and once more on a new connection if that of the pool turns out to be dead: a restart of the
// database leaves a pool full of those. query must be fit to be carried out twice; it is told whether it may have been.
func Retry(ctx context.Context, pool *pgxpool.Pool, query func(again bool) error) error {
	err := query(false)
	if ctx.Err() != nil || !connectionLost(err) {
		return err
	}
	pool.Reset()
	return query(true)
}

// connectionLost reports whether err means that an established connection has broken, rather than that none could be
// made, time was up or the database refused the statement.
func connectionLost(err error) bool {
	var connect *pgconn.ConnectError
	var refusal *pgconn.PgError
	var network *net.OpError
	switch {
	case err == nil, errors.As(err, &connect), pgconn.Timeout(err):
		return false
	case errors.As(err, &refusal):
		return strings.HasPrefix(refusal.Code, "57P0") // the server, or this session alone, was told to end
	}
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		pgconn.SafeToRetry(err)
}
