package projections_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// TestReportsBeyondCount: no number of reports, in a batch or over many, stops the projection.
func TestReportsBeyondCount(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	imported := comment(seeded(1), "reported")
	imported.LogIndex, imported.RecordedAt = 0, time.Unix(0, 0)
	testdb.NoError(t, projections.Posts{}.Apply(t.Context(), pool, []events.Recorded{imported}))
	const reports, batch = 1_000_000, 3_000
	for range 2 {
		recorded := make([]events.Recorded, batch)
		for i := range recorded {
			recorded[i] = events.Recorded{
				StreamID: imported.StreamID, RecordedAt: time.Unix(1, 0),
				Event: events.PostReported{IntegrationID: uuid.UUID{1}, Reason: "spam", Reports: reports},
			}
		}
		testdb.NoError(t, projections.Posts{}.Apply(t.Context(), pool, recorded))
	}
	if got := testdb.Value[int](t, pool, `SELECT spam FROM reported_posts`); got != 2*batch*reports {
		t.Errorf("%d readers reported it, want %d", got, 2*batch*reports)
	}
}
