package projections

import (
	"context"
	"fmt"

	"novelgate/events"
	"novelgate/internal/database"
)

// Integrations is the inline projection of what integrations may do and which keys they have. Staff change these
// one at a time, so it writes event by event.
type Integrations struct{}

// Name implements Projection.
func (Integrations) Name() string { return "integrations" }

// Generation implements Projection.
func (Integrations) Generation() int { return 1 }

// Tables implements Projection.
func (Integrations) Tables() []string { return []string{"integrations", "api_keys"} }

// Streams implements Selective.
func (Integrations) Streams() []string { return []string{events.IntegrationStream} }

const (
	integrationInsertSQL = `INSERT INTO integrations (integration_id, name, enabled, can_create_novels, can_post,
    posts_per_minute, novels_per_minute, review, stream_version, registered_at)
SELECT $1, $2, true, false, false, 60, 60, false, $3, $4
WHERE NOT EXISTS (SELECT FROM integrations WHERE integration_id = $1)`

	// A NULL leaves a setting as it is. $2: version, $10: whether the limit of updates is set, to $11.
	integrationUpdateSQL = `UPDATE integrations
SET stream_version    = $2,
    enabled           = coalesce($3, enabled),
    can_create_novels = coalesce($4, can_create_novels),
    can_post          = coalesce($5, can_post),
    posts_per_minute  = coalesce($6, posts_per_minute),
    novels_per_minute = coalesce($7, novels_per_minute),
    review            = coalesce($8, review),
    name              = coalesce($9, name),
    novel_updates_per_minute = CASE WHEN $10 THEN $11 ELSE novel_updates_per_minute END
WHERE integration_id = $1 AND stream_version < $2`

	keyInsertSQL = `INSERT INTO api_keys (key_id, key_hash, prefix, integration_id, issued_at, expires_at)
SELECT $1, $2, $3, $4, $5, $6
WHERE NOT EXISTS (SELECT FROM api_keys WHERE key_id = $1)`

	keyExpirySQL = `UPDATE api_keys SET expires_at = $2 WHERE key_id = $1`

	keyRevokeSQL = `UPDATE api_keys SET revoked_at = $2 WHERE key_id = $1 AND revoked_at IS NULL`
)

// settings are the columns that an event changes; nil stays.
type settings struct {
	name                            *string
	enabled, novels, posts, review  *bool
	postsPerMinute, novelsPerMinute *int
	updates                         *events.UpdateLimit
}

// Apply implements Projection.
func (Integrations) Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	for _, recorded := range batch {
		if recorded.StreamType != events.IntegrationStream {
			continue
		}
		if err := applyIntegration(ctx, tx, recorded); err != nil {
			return fmt.Errorf("apply %s to integration %s: %w", recorded.Event.Type(), recorded.StreamID, err)
		}
	}
	return nil
}

func applyIntegration(ctx context.Context, tx database.Execer, recorded events.Recorded) error {
	id, version := recorded.StreamID, recorded.StreamVersion
	if e, ok := recorded.Event.(events.IntegrationRegistered); ok {
		_, err := tx.Exec(ctx, integrationInsertSQL, id, e.Name, version, e.RegisteredAt)
		return err
	}
	var s settings
	yes, no := true, false
	switch e := recorded.Event.(type) {
	case events.IntegrationRenamed:
		s.name = &e.Name
	case events.IntegrationEnabled:
		s.enabled = &yes
	case events.IntegrationDisabled:
		s.enabled = &no
	case events.CapabilityEnabled:
		s.capability(e.Capability, &yes)
	case events.CapabilityDisabled:
		s.capability(e.Capability, &no)
	case events.RateLimitSet:
		if e.Operation == "posts" {
			s.postsPerMinute = &e.PerMinute
		} else {
			s.novelsPerMinute = &e.PerMinute
		}
		s.updates = e.Updates
	case events.ReviewModeSet:
		s.review = &e.Review
	case events.KeyIssued:
		if _, err := tx.Exec(ctx, keyInsertSQL, e.KeyID, e.SHA256, e.Prefix, id, e.IssuedAt, e.ExpiresAt); err != nil {
			return err
		}
	case events.KeyExpirySet:
		if _, err := tx.Exec(ctx, keyExpirySQL, e.KeyID, e.ExpiresAt); err != nil {
			return err
		}
	case events.KeyRevoked:
		if _, err := tx.Exec(ctx, keyRevokeSQL, e.KeyID, e.RevokedAt); err != nil {
			return err
		}
	default: // no event that changes an integration
	}
	var updatesPerMinute *int
	if s.updates != nil {
		updatesPerMinute = s.updates.PerMinute
	}
	_, err := tx.Exec(ctx, integrationUpdateSQL, id, version, s.enabled, s.novels, s.posts, s.postsPerMinute,
		s.novelsPerMinute, s.review, s.name,
		s.updates != nil, updatesPerMinute)
	return err
}

func (s *settings) capability(name string, on *bool) {
	if name == "posts" {
		s.posts = on
	} else {
		s.novels = on
	}
}
