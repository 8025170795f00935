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

// ErrorText returns the text of an error, with the failed attempts to connect on one line. pgx gives each a line, and
// tries every address with TLS, then without: repetitions are left out, and a refusal of TLS that did not end it.
func ErrorText(err error) string {
	var text strings.Builder
	var last string
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		attempt, isAttempt := strings.CutPrefix(line, "\t")
		address, noTLS := strings.CutSuffix(line, "tls error: server refused TLS connection")
		switch {
		case i > 0 && strings.HasSuffix(last, attempt), noTLS && i+1 < len(lines) && strings.HasPrefix(lines[i+1], address):
			continue
		case isAttempt && strings.HasSuffix(last, ":"):
			text.WriteString(" ")
		case isAttempt:
			text.WriteString("; ")
		case i > 0:
			text.WriteString("\n")
		}
		text.WriteString(attempt)
		last = attempt
	}
	return text.String()
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

// outcomeUnknown reports whether a statement may have been carried out although it failed with err: it was sent, and
// the server did not refuse it.
func outcomeUnknown(err error) bool {
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) {
		return connectionLost(err)
	}
	return err != nil && !pgconn.SafeToRetry(err)
}
