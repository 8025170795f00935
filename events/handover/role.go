package handover

import (
	"context"
	"fmt"

	"novelgate/internal/database"
)

// Role is what a service may do with its database. The zero Role is that of an origin: it appends.
type Role struct {
	Mirrors    string // public URL of the service that is mirrored; "" if the database is not a mirror
	HandedOver bool   // the database has a fence: another service continues the log, or will do so
	Successor  string // its public URL; "" if unknown
}

// Appends reports whether commands are accepted.
func (r Role) Appends() bool { return r.Mirrors == "" && !r.HandedOver }

const roleSQL = `SELECT coalesce((SELECT origin_url FROM mirror), ''), EXISTS (SELECT FROM handover),
       coalesce((SELECT successor_url FROM handover), '')`

// ReadRole reads the role of a database.
func ReadRole(ctx context.Context, db database.Querier) (r Role, err error) {
	if err := db.QueryRow(ctx, roleSQL).Scan(&r.Mirrors, &r.HandedOver, &r.Successor); err != nil {
		return Role{}, fmt.Errorf("read the role of the database: %w", err)
	}
	return r, nil
}
