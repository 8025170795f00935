package projections

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
)

var (
	//go:embed activity.sql
	activitySQL string
	//go:embed activity_erase.sql
	activityEraseSQL string
)

// Activity is the projection activity: counts of what partners deliver, per thread (thread_activity), per integration
// (integration_activity) and per UTC day, integration and novel (daily_facts, daily_authors). Whatever was imported counts, also
// when it was hidden, rejected or erased later. What staff do to novels does not.
//
// The four tables are one projection because the same events make them: reading and decoding the log costs more than counting.
// They stop together, and so they agree with one another at every moment. A count cannot tell by itself what it has counted;
// activity_applied holds the position up to which everything was.
type Activity struct{}

// Name implements Projection.
func (Activity) Name() string { return "activity" }

// Generation is the generation of this code: a change that makes other rows of the same events raises it. Since 2: authors are erased.
func (Activity) Generation() int { return 2 }

// Tables names what the projection writes.
func (Activity) Tables() []string {
	return []string{"activity_applied", "daily_authors", "daily_facts", "thread_activity", "integration_activity"}
}

// Streams names the kinds of stream that the projection looks at.
func (Activity) Streams() []string {
	return []string{events.NovelStream, events.PostStream, events.AuthorStream}
}

// Apply implements Projection.
func (Activity) Apply(ctx context.Context, tx Execer, batch []events.Recorded) error {
	for i := range batch {
		if _, ok := batch[i].Event.(events.AuthorErased); !ok {
			continue
		}
		if err := countActivity(ctx, tx, batch[:i]); err != nil {
			return err
		}
		at := batch[i].Position
		if _, err := tx.Exec(ctx, activityEraseSQL, batch[i].StreamID, at.TransactionID, at.Ordinal); err != nil {
			return fmt.Errorf("forget author: %w", err)
		}
		return Activity{}.Apply(ctx, tx, batch[i+1:])
	}
	return countActivity(ctx, tx, batch)
}

func countActivity(ctx context.Context, tx Execer, batch []events.Recorded) error {
	var rows activityRows
	rows.grow(len(batch))
	for i := range batch {
		rows.add(&batch[i])
	}
	if len(rows.positions) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, activitySQL, rows.transactions, rows.positions, rows.integrations, rows.novels, rows.threads, rows.posts,
		rows.authors, rows.replies, rows.times, rows.recorded, rows.created); err != nil {
		return fmt.Errorf("count activity: %w", err)
	}
	return nil
}

// activityRows are the parameters of activitySQL, a slice per column.
type activityRows struct {
	transactions                                  pgtype.FlatArray[pgtype.Uint64]
	positions                                     []int32
	integrations, novels, threads, posts, authors pgtype.FlatArray[pgtype.UUID]
	replies, created                              []bool
	times, recorded                               pgtype.FlatArray[time.Time]
}

func (r *activityRows) grow(capacity int) {
	ids := func() pgtype.FlatArray[pgtype.UUID] { return make(pgtype.FlatArray[pgtype.UUID], 0, capacity) }
	times := func() pgtype.FlatArray[time.Time] { return make(pgtype.FlatArray[time.Time], 0, capacity) }
	r.transactions, r.positions = make(pgtype.FlatArray[pgtype.Uint64], 0, capacity), make([]int32, 0, capacity)
	r.integrations, r.novels, r.threads, r.posts, r.authors = ids(), ids(), ids(), ids(), ids()
	r.replies, r.created = make([]bool, 0, capacity), make([]bool, 0, capacity)
	r.times, r.recorded = times(), times()
}

// add adds a row for an event that counts.
func (r *activityRows) add(recorded *events.Recorded) {
	switch e := recorded.Event.(type) {
	case events.PostImported:
		var author pgtype.UUID
		if e.Comment != nil {
			author = present(events.AuthorID(e.IntegrationID, e.Comment.ExternalUUID))
		}
		r.event(recorded, e.IntegrationID, e.NovelID, e.WrittenAt)
		r.comment(present(e.ThreadID), present(recorded.StreamID), author, e.ParentPostID != nil)
		r.created = append(r.created, false)
	case events.NovelCreated, events.NovelUpdated:
		integration, ok := events.SourceIntegration(recorded.Source)
		if !ok {
			return // staff did it
		}
		r.event(recorded, integration, recorded.StreamID, recorded.RecordedAt)
		r.comment(pgtype.UUID{}, pgtype.UUID{}, pgtype.UUID{}, false)
		_, created := e.(events.NovelCreated)
		r.created = append(r.created, created)
	default: // nothing to count
	}
}

func (r *activityRows) event(recorded *events.Recorded, integration, novel uuid.UUID, at time.Time) {
	r.transactions = append(r.transactions, pgtype.Uint64{Uint64: recorded.Position.TransactionID, Valid: true})
	r.positions = append(r.positions, recorded.Position.Ordinal)
	r.integrations = append(r.integrations, present(integration))
	r.novels = append(r.novels, present(novel))
	r.times = append(r.times, at)
	r.recorded = append(r.recorded, recorded.RecordedAt)
}

func (r *activityRows) comment(thread, post, author pgtype.UUID, reply bool) {
	r.threads = append(r.threads, thread)
	r.posts = append(r.posts, post)
	r.authors = append(r.authors, author)
	r.replies = append(r.replies, reply)
}
