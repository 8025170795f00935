package projections

import (
	"context"
	_ "embed"
	"fmt"

	"novelgate/events"
	"novelgate/internal/database"
)

var (
	//go:embed activity.sql
	activitySQL string
	//go:embed activity_erase.sql
	activityEraseSQL string
)

// Activity is the projection activity: counts of what partners deliver, per thread (thread_activity), per integration
// (integration_activity) and per UTC day, integration and novel (daily_facts, daily_authors). Whatever was imported
// counts, also when it was hidden, rejected or erased later. What staff do to novels does not.
//
// The four tables are one projection because the same events make them: reading and decoding the log costs more than
// counting. They stop together, and so they agree with one another at every moment. Batches are summed up here, so that
// the database adds one row per thread and day rather than one per comment. A count cannot tell by itself what it has
// counted; activity_applied holds the position up to which everything was.
type Activity struct{}

// Name implements Projection.
func (Activity) Name() string { return "activity" }

// Generation is the generation of this code: a change that makes other rows of the same events raises it. Since 2:
// authors are erased.
func (Activity) Generation() int { return 2 }

// Tables names what the projection writes.
func (Activity) Tables() []string {
	return []string{"activity_applied", "daily_authors", "daily_facts", "thread_activity", "integration_activity"}
}

// Streams names the kinds of stream that the projection looks at.
func (Activity) Streams() []string {
	return []string{events.NovelStream, events.PostStream, events.AuthorStream}
}

// Apply implements Projection. Of a batch that comes again nothing is counted; one of which a part was counted before
// is refused.
func (Activity) Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	return applyBetweenErasures(ctx, tx, batch, activityEraseSQL, countActivity)
}

// countActivity applies events none of which erases an author.
func countActivity(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	counted := newActivityCount()
	for i := range batch {
		counted.add(&batch[i])
	}
	if counted.first == (events.Position{}) {
		return nil
	}
	if _, err := tx.Exec(ctx, activitySQL, counted.arguments()...); err != nil {
		return fmt.Errorf("count activity: %w", err)
	}
	return nil
}
