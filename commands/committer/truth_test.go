package committer_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// readLog returns all events in log order.
func readLog(t testing.TB, pool *pgxpool.Pool) []events.Recorded {
	t.Helper()
	return testdb.Must(eventlog.ReadFrom(context.Background(), pool, 0, 1_000_000))(t)
}

// checkTruth checks the invariants of every log, and returns the log.
func checkTruth(t testing.TB, pool *pgxpool.Pool) []events.Recorded {
	t.Helper()
	log := readLog(t, pool)
	versions := map[uuid.UUID]int{}
	sources := map[[2]string]int{}
	folded := map[string]uuid.UUID{}
	threads := map[uuid.UUID]uuid.UUID{}
	slugs := map[string]string{}
	disorder := 0
	for _, recorded := range log {
		// In log order, versions of every stream are 1, 2, 3, …: contiguous and ordered.
		if versions[recorded.StreamID]++; versions[recorded.StreamID] != recorded.StreamVersion {
			disorder++
		}
		if sources[[2]string{recorded.Source, recorded.ID}]++; sources[[2]string{recorded.Source, recorded.ID}] > 1 {
			t.Errorf("two events %s %s", recorded.Source, recorded.ID)
		}
		switch e := recorded.Event.(type) {
		case events.NovelCreated:
			if other, ok := folded[fold(e.Title)]; ok {
				t.Errorf("title %q was created as %s and %s", e.Title, other, recorded.StreamID)
			}
			folded[fold(e.Title)] = recorded.StreamID
			if other, ok := slugs[e.Slug]; ok && other != fold(e.Title) {
				t.Errorf("%q and %q have the slug %s", e.Title, other, e.Slug)
			}
			slugs[e.Slug] = fold(e.Title)
		case events.ThreadOpened:
			if other, ok := threads[e.NovelID]; ok {
				t.Errorf("novel %s has threads %s and %s", e.NovelID, other, recorded.StreamID)
			}
			threads[e.NovelID] = recorded.StreamID
		case events.PostImported:
			if threads[e.NovelID] != e.ThreadID {
				t.Errorf("post %s is in thread %s, the novel's is %s", recorded.StreamID, e.ThreadID, threads[e.NovelID])
			}
		default:
		}
	}
	if disorder > 0 {
		t.Errorf("%d of %d events are out of order in their stream", disorder, len(log))
	}
	checkReplay(t, pool, log)
	return log
}

// checkReplay compares the inline projections with a replay of the log into a new database.
func checkReplay(t testing.TB, pool *pgxpool.Pool, log []events.Recorded) {
	t.Helper()
	fresh := testdb.Pool(t, testdb.New(t))
	for start := 0; start < len(log); start += 500 {
		part := log[start:min(start+500, len(log))]
		err := pgx.BeginFunc(context.Background(), fresh, func(tx pgx.Tx) error {
			for _, projection := range []projections.Projection{projections.Titles{}, projections.Threads{}} {
				if err := projection.Apply(context.Background(), tx, part); err != nil {
					return fmt.Errorf("apply %s: %w", projection.Name(), err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatalf("replay: %v", err)
		}
	}
	for _, table := range []string{"title_lookup", "threads"} {
		if diff := cmp.Diff(rows(t, fresh, table), rows(t, pool, table)); diff != "" {
			t.Errorf("%s differs from a replay (-replay +inline):\n%s", table, diff)
		}
	}
}

// rows returns a table, one line of text per row, sorted.
func rows(t testing.TB, pool *pgxpool.Pool, table string) []string {
	t.Helper()
	return testdb.Values[string](t, pool, `SELECT x::text FROM `+table+` AS x ORDER BY 1`)
}
