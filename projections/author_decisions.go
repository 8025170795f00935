package projections

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/database"
)

//go:embed author_decisions.sql
var authorDecisionsSQL string

// AuthorDecisions is the inline projection author_decisions: what staff decided about authors. Staff decide one at a
// time, so it writes event by event.
type AuthorDecisions struct{}

// Name implements Projection.
func (AuthorDecisions) Name() string { return "author_decisions" }

// Generation implements Projection.
func (AuthorDecisions) Generation() int { return 1 }

// Tables implements Projection.
func (AuthorDecisions) Tables() []string { return []string{"author_decisions"} }

// Streams implements Selective.
func (AuthorDecisions) Streams() []string { return []string{events.AuthorStream} }

// decision is what one event changes about an author; nil stays.
type decision struct {
	integrationID uuid.UUID
	externalUUID  *string // nil when erased
	member        *string // "" ends the link
	blocked       *bool
	hiddenUntil   *time.Time
	restored      bool // posts are no longer hidden
	erased        bool // nobody knows who it is
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
			d.hiddenUntil, d.restored, recorded.StreamVersion, d.erased); err != nil {
			return fmt.Errorf("apply %s to author %s: %w", recorded.Event.Type(), recorded.StreamID, err)
		}
	}
	return nil
}

func decisionOf(event events.Event) (decision, bool) {
	nobody, yes, no := "", true, false
	switch e := event.(type) {
	case events.AuthorLinked:
		d := decision{integrationID: e.IntegrationID, member: &nobody}
		if e.Link != nil {
			d.externalUUID, d.member = &e.Link.ExternalUUID, &e.Link.MemberID
		}
		return d, true
	case events.AuthorUnlinked:
		d := about(e.AuthorRef)
		d.member = &nobody
		return d, true
	case events.AuthorBlocked:
		d := about(e.AuthorRef)
		d.blocked = &yes
		return d, true
	case events.AuthorUnblocked:
		d := about(e.AuthorRef)
		d.blocked = &no
		return d, true
	case events.AuthorPostsHidden:
		d := about(e.AuthorRef)
		d.hiddenUntil = &e.Until
		return d, true
	case events.AuthorPostsRestored:
		d := about(e.AuthorRef)
		d.restored = true
		return d, true
	case events.AuthorErased:
		return decision{integrationID: e.IntegrationID, member: &nobody, restored: true, erased: true}, true
	default: // no event of this stream
		return decision{}, false
	}
}

func about(ref events.AuthorRef) decision {
	d := decision{integrationID: ref.IntegrationID}
	if ref.Author != nil {
		d.externalUUID = &ref.Author.ExternalUUID
	}
	return d
}
