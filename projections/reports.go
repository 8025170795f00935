package projections

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
	"novelgate/internal/database"
)

//go:embed reports.sql
var reportsSQL string

// reportsEraseSQL closes the reports of the comments of an erased author. $1: author; $2: log index of the erasure.
const reportsEraseSQL = `DELETE FROM reported_posts WHERE author_id = $1 AND log_index < $2`

// openReports has the reports of a post since the latest decision in a batch.
type openReports struct {
	decided     bool             // reports before the batch are decided
	readers     map[string]int64 // by reason
	first, last time.Time        // recorded; zero without reports
}

// applyReports maintains the table reported_posts.
func applyReports(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	reports := map[uuid.UUID]*openReports{}
	for i := range batch {
		switch e := batch[i].Event.(type) {
		case events.PostReported:
			r := entry(reports, batch[i].StreamID)
			if r.readers == nil {
				r.readers, r.first = map[string]int64{}, batch[i].RecordedAt
			}
			r.readers[e.Reason] += int64(e.Reports)
			r.last = batch[i].RecordedAt
		case events.PostReportsDismissed, events.PostHidden, events.PostRestored, events.PostWithdrawn:
			*entry(reports, batch[i].StreamID) = openReports{decided: true}
		default: // reports wait as before
		}
	}
	if len(reports) == 0 {
		return nil
	}
	var (
		decided, posts uuidColumn
		readers        [len(events.ReportReasons)]pgtype.FlatArray[int64] // in the order of events.ReportReasons
		first, last    timeColumn
	)
	for _, id := range slices.SortedFunc(maps.Keys(reports), compareIDs) {
		r := reports[id]
		if r.decided {
			decided = append(decided, pgUUID(id))
		}
		if r.readers == nil {
			continue
		}
		posts, first, last = append(posts, pgUUID(id)), append(first, r.first), append(last, r.last)
		for i, reason := range events.ReportReasons {
			readers[i] = append(readers[i], r.readers[reason])
		}
	}
	if len(decided) > 0 {
		const decideSQL = `DELETE FROM reported_posts WHERE post_id = ANY ($1::uuid[])`
		if _, err := tx.Exec(ctx, decideSQL, decided); err != nil {
			return fmt.Errorf("close reports: %w", err)
		}
	}
	if len(posts) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, reportsSQL, posts, readers[0], readers[1], readers[2], readers[3], readers[4], readers[5],
		first, last); err != nil {
		return fmt.Errorf("add reports: %w", err)
	}
	return nil
}
