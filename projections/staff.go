package projections

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/database"
	"novelgate/internal/title"
)

// Integrations is the inline projection of integrations and their keys. Their events are rare, so Apply writes
// event by event.
type Integrations struct{}

// Name implements Projection.
func (Integrations) Name() string { return "integrations" }

// Generation implements Projection.
func (Integrations) Generation() int { return 1 }

// Tables implements Projection.
func (Integrations) Tables() []string { return []string{"integrations", "api_keys"} }

// Streams implements Projection.
func (Integrations) Streams() []string { return []string{events.IntegrationStream} }

const (
	integrationInsertSQL = `INSERT INTO integrations (integration_id, name, folded_name, enabled, can_create_novels,
    can_post, can_import, posts_per_minute, novels_per_minute, lines_per_minute, review, registered_at)
VALUES ($1, $2, $4, true, false, false, false, 60, 60, 60000, false, $3)`

	// NULL leaves a setting unchanged.
	integrationUpdateSQL = `UPDATE integrations
SET enabled           = coalesce($2, enabled),
    can_create_novels = coalesce($3, can_create_novels),
    can_post          = coalesce($4, can_post),
    posts_per_minute  = coalesce($5, posts_per_minute),
    novels_per_minute = coalesce($6, novels_per_minute),
    review            = coalesce($7, review),
    name              = coalesce($8, name),
    can_import        = coalesce($9, can_import),
    lines_per_minute  = coalesce($10, lines_per_minute),
    folded_name       = coalesce($11, folded_name)
WHERE integration_id = $1`

	keyInsertSQL = `INSERT INTO api_keys (key_id, key_hash, prefix, integration_id, issued_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6)`

	keyExpirySQL = `UPDATE api_keys SET expires_at = $2 WHERE key_id = $1`

	keyRevokeSQL = `UPDATE api_keys SET revoked_at = $2 WHERE key_id = $1 AND revoked_at IS NULL`
)

// settings are the columns that an event changes; nil: unchanged.
type settings struct {
	name, foldedName                                *string
	enabled, review                                 *bool
	novels, posts, imports                          *bool // capabilities
	postsPerMinute, novelsPerMinute, linesPerMinute *int
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
	id := recorded.StreamID
	if e, ok := recorded.Event.(events.IntegrationRegistered); ok {
		_, err := tx.Exec(ctx, integrationInsertSQL, id, e.Name, e.RegisteredAt, title.Fold(e.Name))
		return err
	}
	var s settings
	switch e := recorded.Event.(type) {
	case events.IntegrationRenamed:
		s.name, s.foldedName = &e.Name, new(title.Fold(e.Name))
	case events.IntegrationEnabled:
		s.enabled = new(true)
	case events.IntegrationDisabled:
		s.enabled = new(false)
	case events.CapabilityEnabled:
		s.setCapability(e.Capability, true)
	case events.CapabilityDisabled:
		s.setCapability(e.Capability, false)
	case events.RateLimitSet:
		switch e.Operation {
		case "posts":
			s.postsPerMinute = &e.PerMinute
		case "lines":
			s.linesPerMinute = &e.PerMinute
		default:
			s.novelsPerMinute = &e.PerMinute
		}
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
	default: // does not change an integration
	}
	if s == (settings{}) {
		return nil
	}
	_, err := tx.Exec(ctx, integrationUpdateSQL, id, s.enabled, s.novels, s.posts, s.postsPerMinute,
		s.novelsPerMinute, s.review, s.name, s.imports, s.linesPerMinute, s.foldedName)
	return err
}

func (s *settings) setCapability(name string, enabled bool) {
	switch name {
	case "posts":
		s.posts = &enabled
	case "import":
		s.imports = &enabled
	default:
		s.novels = &enabled
	}
}

// Persons is the inline projection of the keys of staff and auditors.
type Persons struct{}

// Name implements Projection.
func (Persons) Name() string { return "persons" }

// Generation implements Projection.
func (Persons) Generation() int { return 1 }

// Tables implements Projection.
func (Persons) Tables() []string { return []string{"person_keys"} }

// Streams implements Projection.
func (Persons) Streams() []string { return []string{events.PersonStream} }

const (
	personKeyInsertSQL = `INSERT INTO person_keys (key_id, key_hash, prefix, person_id, role, name, issued_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`

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
		default: // does not change a key
		}
		if err != nil {
			return fmt.Errorf("apply %s to person %s: %w", recorded.Event.Type(), recorded.StreamID, err)
		}
	}
	return nil
}

//go:embed author_decisions.sql
var authorDecisionsSQL string

// AuthorDecisions is the inline projection author_decisions: decisions of staff about authors. Staff decide one at a
// time, so Apply writes event by event.
type AuthorDecisions struct{}

// Name implements Projection.
func (AuthorDecisions) Name() string { return "author_decisions" }

// Generation implements Projection.
func (AuthorDecisions) Generation() int { return 1 }

// Tables implements Projection.
func (AuthorDecisions) Tables() []string { return []string{"author_decisions"} }

// Streams implements Projection.
func (AuthorDecisions) Streams() []string { return []string{events.AuthorStream} }

// decision is the change of an author by one event; nil: unchanged.
type decision struct {
	integrationID uuid.UUID
	externalUUID  *string // also nil if the event has lost it by an erasure
	member        *string // "" ends the link
	blocked       *bool
	hiddenUntil   *time.Time
	restored      bool // posts are no longer hidden
	erased        bool // the identity of the author was erased
}

// Apply implements Projection.
func (AuthorDecisions) Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	for i := range batch {
		recorded := &batch[i]
		if recorded.StreamType != events.AuthorStream {
			continue
		}
		d, ok := decisionOf(recorded.Event)
		if !ok {
			continue
		}
		if _, err := tx.Exec(ctx, authorDecisionsSQL, recorded.StreamID, d.integrationID, d.externalUUID, d.member, d.blocked,
			d.hiddenUntil, d.restored, d.erased); err != nil {
			return fmt.Errorf("apply %s to author %s: %w", recorded.Event.Type(), recorded.StreamID, err)
		}
	}
	return nil
}

func decisionOf(event events.Event) (d decision, ok bool) {
	unlinked := new("")
	switch e := event.(type) {
	case events.AuthorLinked:
		d = decision{integrationID: e.IntegrationID, member: unlinked}
		if e.Link != nil {
			d.externalUUID, d.member = &e.Link.ExternalUUID, &e.Link.MemberID
		}
	case events.AuthorUnlinked:
		d = decisionAbout(e.AuthorRef)
		d.member = unlinked
	case events.AuthorBlocked:
		d = decisionAbout(e.AuthorRef)
		d.blocked = new(true)
	case events.AuthorUnblocked:
		d = decisionAbout(e.AuthorRef)
		d.blocked = new(false)
	case events.AuthorPostsHidden:
		d = decisionAbout(e.AuthorRef)
		d.hiddenUntil = &e.Until
	case events.AuthorPostsRestored:
		d = decisionAbout(e.AuthorRef)
		d.restored = true
	case events.AuthorErased:
		d = decision{integrationID: e.IntegrationID, member: unlinked, restored: true, erased: true}
	default: // no event of this stream
		return d, false
	}
	return d, true
}

func decisionAbout(ref events.AuthorRef) decision {
	d := decision{integrationID: ref.IntegrationID}
	if ref.Author != nil {
		d.externalUUID = &ref.Author.ExternalUUID
	}
	return d
}
