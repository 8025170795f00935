package projections

import (
	"context"
	"fmt"

	"novelgate/events"
	"novelgate/internal/database"
)

// Persons is the inline projection of the keys of staff and auditors.
type Persons struct{}

// Name implements Projection.
func (Persons) Name() string { return "persons" }

// Generation implements Projection.
func (Persons) Generation() int { return 1 }

// Tables implements Projection.
func (Persons) Tables() []string { return []string{"person_keys"} }

// Streams implements Selective.
func (Persons) Streams() []string { return []string{events.PersonStream} }

const (
	personKeyInsertSQL = `INSERT INTO person_keys (key_id, key_hash, prefix, person_id, role, name, issued_at, expires_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8
WHERE NOT EXISTS (SELECT FROM person_keys WHERE key_id = $1)`

	personKeyRevokeSQL = `UPDATE person_keys SET revoked_at = $2 WHERE key_id = $1 AND revoked_at IS NULL`
)

// Apply implements Projection.
func (Persons) Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	for _, recorded := range batch {
		if recorded.StreamType != events.PersonStream {
			continue
		}
		var err error
		switch e := recorded.Event.(type) {
		case events.PersonKeyIssued:
			_, err = tx.Exec(ctx, personKeyInsertSQL, e.KeyID, e.SHA256, e.Prefix, recorded.StreamID, e.Role, e.Name, e.IssuedAt,
				e.ExpiresAt)
		case events.PersonKeyRevoked:
			_, err = tx.Exec(ctx, personKeyRevokeSQL, e.KeyID, e.RevokedAt)
		default: // no event that changes a key
		}
		if err != nil {
			return fmt.Errorf("apply %s to person %s: %w", recorded.Event.Type(), recorded.StreamID, err)
		}
	}
	return nil
}
