package projections

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
	"novelgate/internal/database"
)

//go:embed changes.sql
var changesSQL string

// Changes is the projection of the change feed: for each partner, the events that concern it. Novels concern the
// partner that created them, even if the host platform owns them now; comments and authors concern the partner that
// sent them. An event about a novel, its thread or a comment does not name the partner, so the statement reads the
// partner from the earlier event that created the novel or imported the comment. What staff decide about a reported
// comment also concerns the partners that reported it.
type Changes struct{}

// Name implements Projection.
func (Changes) Name() string { return "changes" }

// Generation implements Projection. Since 2: reporters.
func (Changes) Generation() int { return 2 }

// Tables implements Projection.
func (Changes) Tables() []string { return []string{"changes"} }

// Streams implements Projection.
func (Changes) Streams() []string {
	return []string{
		events.NovelStream, events.ThreadStream, events.PostStream, events.AuthorStream, events.IntegrationStream,
	}
}

// Apply implements Projection.
func (Changes) Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	var (
		integrations, subjects uuidColumn
		indexes                []int64
		kinds                  []string
		owners, reporters      []bool // whether the event concerns the owner of the subject, and those who reported it
	)
	for i := range batch {
		recorded := &batch[i]
		kind := events.ChangeOf(recorded.Event)
		if kind == "" {
			continue
		}
		integration, subject := concerns(recorded)
		integrations, subjects = append(integrations, integration), append(subjects, subject)
		indexes, kinds = append(indexes, recorded.LogIndex), append(kinds, kind)
		_, dismissed := recorded.Event.(events.PostReportsDismissed)
		_, hidden := recorded.Event.(events.PostHidden)
		owners, reporters = append(owners, !dismissed), append(reporters, dismissed || hidden)
	}
	if len(kinds) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, changesSQL, integrations, subjects, indexes, kinds, owners, reporters); err != nil {
		return fmt.Errorf("add changes: %w", err)
	}
	return nil
}

// concerns returns the partner that an event concerns or, if the event does not name it, the novel or comment.
func concerns(recorded *events.Recorded) (integration, subject pgtype.UUID) {
	of := func(id uuid.UUID) (pgtype.UUID, pgtype.UUID) { return pgUUID(id), pgtype.UUID{} }
	switch e := recorded.Event.(type) {
	case events.ThreadOpened:
		return pgtype.UUID{}, pgUUID(e.NovelID)
	case events.AuthorBlocked:
		return of(e.IntegrationID)
	case events.AuthorUnblocked:
		return of(e.IntegrationID)
	case events.AuthorPostsHidden:
		return of(e.IntegrationID)
	case events.AuthorPostsRestored:
		return of(e.IntegrationID)
	case events.AuthorErased:
		return of(e.IntegrationID)
	default: // the creation of the novel or the import of the comment names the partner
		return pgtype.UUID{}, pgUUID(recorded.StreamID)
	}
}
