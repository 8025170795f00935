package history

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/auth"
	"novelgate/internal/database"
)

// CLI is the role of a user of the command line.
const CLI = "cli"

// Access is a read of the event history.
type Access struct {
	Role       string // "staff", "auditor" or CLI
	Name       string
	PersonID   uuid.NullUUID // not for CLI
	KeyID      uuid.NullUUID // not for CLI
	RequestID  string
	Route      string            // template of the path, or the command
	Parameters map[string]string // as sent; Begin shortens API keys in them
}

// AccessEntry is an entry of the access log.
type AccessEntry struct {
	ID           int64          `json:"entryId"`
	BeganAt      time.Time      `json:"beganAt"`
	Role         string         `json:"role"`
	Name         string         `json:"name"`
	PersonID     *uuid.UUID     `json:"personId"`
	KeyID        *uuid.UUID     `json:"keyId"`
	RequestID    string         `json:"requestId"`
	Route        string         `json:"route"`
	Parameters   jsontext.Value `json:"parameters"`
	RowsReturned *int64         `json:"rowsReturned"` // nil until the response is complete, and when it is unknown
	EndedAt      *time.Time     `json:"endedAt"`
}

// AccessLog records who read the event history, in a table that is not part of the log.
//
// An entry is committed before the first byte of a response; without an entry there is no response. The number of rows
// is added at the end. It stays NULL when this fails, or when the process dies before.
type AccessLog struct{ DB database.DB }

const beginSQL = `INSERT INTO access_log (role, name, person_id, key_id, request_id, route, parameters)
VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING entry_id`

// Begin commits an entry and returns its id.
func (l *AccessLog) Begin(ctx context.Context, r *Access) (int64, error) {
	parameters, err := json.Marshal(r.Parameters, json.Deterministic(true))
	if err != nil {
		return 0, fmt.Errorf("encode parameters of a read: %w", err)
	}
	parameters = []byte(auth.Redact(string(parameters))) // entries cannot be erased
	var id int64
	if err := l.DB.QueryRow(ctx, beginSQL, r.Role, r.Name, r.PersonID, r.KeyID, r.RequestID, r.Route,
		parameters).Scan(&id); err != nil {
		return 0, fmt.Errorf("write access log: %w", err)
	}
	return id, nil
}

const endSQL = `UPDATE access_log SET rows_returned = $2, ended_at = statement_timestamp() WHERE entry_id = $1`

// End adds the number of rows of the response to an entry.
func (l *AccessLog) End(ctx context.Context, id, rows int64) error {
	if _, err := l.DB.Exec(ctx, endSQL, id, rows); err != nil {
		return fmt.Errorf("count rows in access log: %w", err)
	}
	return nil
}

const listSQL = `SELECT entry_id, began_at, role, name, person_id, key_id, request_id, route, parameters, rows_returned, ended_at
FROM access_log WHERE entry_id < $1 ORDER BY entry_id DESC LIMIT $2`

// List returns up to limit entries before an entry, newest first.
func (l *AccessLog) List(ctx context.Context, before int64, limit int) ([]AccessEntry, error) {
	return database.Collect(ctx, l.DB, "access log", pgx.RowToStructByPos[AccessEntry], listSQL, before, limit)
}
