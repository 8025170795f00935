package eventlog

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs that mean: nothing was appended, decide the command again on the current state.
const (
	uniqueViolation      = "23505"
	deadlockDetected     = "40P01"
	serializationFailure = "40001"
	lockNotAvailable     = "55P03"
)

// IsConflict reports whether err means that another writer was faster: read again and decide again, in a new
// transaction.
func IsConflict(err error) bool {
	switch sqlState(err) {
	case uniqueViolation, deadlockDetected, serializationFailure, lockNotAvailable:
		return true
	}
	return false
}

// IsDuplicate reports whether err is a unique violation, such as of an event's id, a version of a stream or a title.
func IsDuplicate(err error) bool { return sqlState(err) == uniqueViolation }

// IsLocked reports whether err means that another session held a lock longer than lock_timeout.
func IsLocked(err error) bool { return sqlState(err) == lockNotAvailable }

// sqlState returns the SQLSTATE of an error of the database; "" for any other error.
func sqlState(err error) string {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return ""
	}
	return refused.Code
}

// IsUnavailable reports whether err means that the database was not reached or did not answer, rather than that it
// refused a statement: err has the SQLSTATE of an unavailable database, or none. When err comes from a commit, the
// outcome is unknown.
func IsUnavailable(err error) bool {
	code := sqlState(err)
	if code == "" {
		return err != nil
	}
	switch code[:2] {
	case "08", // connection exception
		"53", // insufficient resources: connections, memory, disk
		"57", // operator intervention: shutting down, starting up, cancelled
		"58": // system error
		return true
	}
	return code == idleInTransaction ||
		code == "25006" // read-only: a standby, or a primary that was demoted
}

// BlamesData reports whether an error of a write is caused by the data: the database refused a value, a constraint is
// violated, or the value could not be encoded. Any other error (a missing right, a time-out, a full disk, a damaged
// index, a broken connection) says nothing about the data: the same write may succeed later.
func BlamesData(err error) bool {
	code := sqlState(err)
	if code == "" {
		return err != nil && !IsAway(err)
	}
	return code[:2] == "22" || // data exception
		code[:2] == "23" // integrity constraint violation
}

// IsAway is IsUnavailable for answers to clients, where "try again" must not hide a defect. It accepts only errors of
// connections, time-outs, ended contexts, and SQLSTATEs of an unavailable database.
func IsAway(err error) bool {
	var connect *pgconn.ConnectError
	var network net.Error
	switch {
	case err == nil:
		return false
	case sqlState(err) != "" && !errors.As(err, &connect):
		return IsUnavailable(err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, net.ErrClosed), errors.Is(err, pgconn.ErrConnClosed):
		return true
	}
	if errors.As(err, &network) {
		_, file := network.(syscall.Errno) // a bare syscall.Errno comes from a file
		return !file
	}
	return errors.As(err, &connect) || pgconn.Timeout(err) || pgconn.SafeToRetry(err)
}

// ErrorText returns the text of an error for a column of type text: valid UTF-8 without zero bytes, cut after
// 4,000 bytes.
func ErrorText(err error) string {
	const limit = 4000
	text := strings.ReplaceAll(strings.ToValidUTF8(err.Error(), "\uFFFD"), "\x00", "\uFFFD")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}
