package projections_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/projections"
)

func readThreads(t testing.TB, pool *pgxpool.Pool) map[uuid.UUID]uuid.UUID {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT novel_id, thread_id FROM threads`)
	if err != nil {
		t.Fatal(err)
	}
	threads := map[uuid.UUID]uuid.UUID{}
	var novelID, threadID uuid.UUID
	if _, err := pgx.ForEachRow(rows, []any{&novelID, &threadID}, func() error {
		threads[novelID] = threadID
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return threads
}

func TestThreads(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	var batch []events.Recorded
	want := map[uuid.UUID]uuid.UUID{}
	for n := byte(9); n > 0; n-- {
		novelID := uuid.UUID{n}
		want[novelID] = events.ThreadID(novelID)
		batch = slices.Concat(batch,
			history(events.ThreadStream, want[novelID], 1, events.ThreadOpened{NovelID: novelID}),
			history(events.NovelStream, novelID, 2, events.NovelApproved{}))
	}
	for range 2 { // a second delivery changes nothing
		applyBatch(t, pool, projections.Threads{}, batch)
		if diff := cmp.Diff(want, readThreads(t, pool)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	err := projections.Threads{}.Apply(t.Context(), pool,
		history(events.ThreadStream, uuid.UUID{99}, 1, events.ThreadOpened{NovelID: uuid.UUID{1}}))
	if got := constraint(err); got != "threads_pkey" {
		t.Errorf("a second thread of one novel violates %q: %v", got, err)
	}
}
