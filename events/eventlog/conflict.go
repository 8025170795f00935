package eventlog

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATE codes after which nothing was appended and the command is to be decided again on fresh state.
const (
	uniqueViolation      = "23505"
	deadlockDetected     = "40P01"
	serializationFailure = "40001"
	lockNotAvailable     = "55P03"
)

// IsConflict reports whether err means that another writer was faster: read again and decide again, in a new
// transaction.
func IsConflict(err error) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	switch pgErr.Code {
	case uniqueViolation, deadlockDetected, serializationFailure, lockNotAvailable:
		return true
	}
	return false
}

// IsUnavailable reports whether err means that the database could not be asked or did not answer, rather than that
// it refused a statement. When err comes from a commit, the outcome is unknown.
func IsUnavailable(err error) bool {
	if err == nil {
		return false
	}
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return true
	}
	switch pgErr.Code[:2] {
	case "08", // connection exception
		"53", // insufficient resources: connections, memory, disk
		"57", // operator intervention: shutting down, starting up, cancelled
		"58": // system error
		return true
	}
	return pgErr.Code == "25006" // read-only: a standby, or a primary that was demoted
}
