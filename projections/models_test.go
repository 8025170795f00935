package projections_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// TestAnyBatches: for any history, however it is cut into batches, the asynchronous projections give the rows of a
// replay, one event at a time, also when comments are read after their author was erased.
func TestAnyBatches(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	rapid.Check(t, func(rt *rapid.T) {
		log := anyHistory(rt, "any", rapid.IntRange(1, 60).Draw(rt, "steps"))
		late := rapid.Bool().Draw(rt, "read after erasures")
		var batches [][]events.Recorded
		for done := 0; done < len(log); {
			from := done
			done = rapid.IntRange(from+1, len(log)).Draw(rt, "to")
			read := log[:done]
			if late {
				read = log
			}
			batches = append(batches, withoutErased(read)[from:done])
		}
		stored := withoutErased(log) // a withdrawal reads it
		all := append(projections.All(), projections.Optional()...)
		want := replayed(t, pool, all, stored, slices.Collect(slices.Chunk(log, 1))...)
		if diff := cmp.Diff(want, replayed(t, pool, all, stored, batches...)); diff != "" {
			rt.Errorf("rows (-one by one +in batches):\n%s", diff)
		}
	})
}

// TestModelsFollowTheLog uses a runner and a stored log. The views count distinct authors. Changes of each kind are in
// the feed, and comments are none.
func TestModelsFollowTheLog(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	for part := range slices.Chunk(longHistory(30), 97) {
		append1(t, pool, part...)
	}
	run(t, projections.Config{Pool: pool, Limit: 100})
	for _, p := range projections.All() {
		testdb.Eventually(t, p.Name()+" catches up", caughtUp(t, pool, p.Name()))
	}
	log := readAll(t, pool)
	if diff := modelsDiff(t, pool, log, projections.All()...); diff != "" {
		t.Error(diff)
	}
	kinds := testdb.Values[string](t, pool, `SELECT kind FROM changes GROUP BY kind ORDER BY kind COLLATE "C"`)
	if diff := cmp.Diff(events.ChangeKinds(), kinds); diff != "" {
		t.Errorf("kinds of change (-all +in the test):\n%s", diff)
	}
	analyst := testdb.Begin(t, pool)
	testdb.Exec(t, analyst, `SET LOCAL TimeZone = 'Pacific/Kiritimati'`) // days are those of UTC all the same
	rows, err := analyst.Query(t.Context(), `SELECT concat_ws(' ', day, integration_id, novel_id), authors FROM analytics.daily_facts WHERE authors > 0
		UNION ALL SELECT concat_ws(' ', day, integration_id, novel_id), count(*) FROM analytics.daily_authors GROUP BY 1
		UNION ALL SELECT thread_id::text, participants FROM analytics.thread_activity WHERE participants > 0
		UNION ALL SELECT integration_id::text, authors FROM analytics.integration_activity WHERE authors > 0`)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]int{}
	var of string
	var authors int
	if _, err := pgx.ForEachRow(rows, []any{&of, &authors}, func() error {
		got[of] = append(got[of], authors)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(distinctAuthors(log), got); diff != "" {
		t.Errorf("distinct authors (-log +views):\n%s", diff)
	}
}

// distinctAuthors counts authors like the views: per thread, per integration and, in two views, per day, integration
// and novel.
func distinctAuthors(log []events.Recorded) map[string][]int {
	sets := map[string]map[uuid.UUID]bool{}
	for _, r := range withoutErased(log) {
		switch e := r.Event.(type) {
		case events.PostImported:
			day := e.WrittenAt.UTC().Format(time.DateOnly)
			for _, of := range []string{
				e.ThreadID.String(), e.IntegrationID.String(), fmt.Sprintf("%s %s %s", day, e.IntegrationID, e.NovelID),
			} {
				if sets[of] == nil {
					sets[of] = map[uuid.UUID]bool{}
				}
				if e.Comment != nil {
					sets[of][testdb.AuthorID(e.IntegrationID, e.Comment.ExternalUUID)] = true
				}
			}
		case events.AuthorErased:
			for _, set := range sets {
				delete(set, r.StreamID)
			}
		default: // says nothing about authors
		}
	}
	counts := map[string][]int{}
	for of, set := range sets {
		switch n := len(set); {
		case n == 0:
		case strings.Contains(of, " "):
			counts[of] = []int{n, n}
		default:
			counts[of] = []int{n}
		}
	}
	return counts
}

// withoutErased returns a log as it is read at its end: comments that were withdrawn later, or whose authors were
// erased, have no content.
func withoutErased(log []events.Recorded) []events.Recorded {
	erased := map[uuid.UUID]bool{}
	isErased := func(post, partner uuid.UUID, comment *events.Comment) bool {
		return erased[post] || comment != nil && erased[testdb.AuthorID(partner, comment.ExternalUUID)]
	}
	read := slices.Clone(log)
	for i := range slices.Backward(read) {
		switch e := read[i].Event.(type) {
		case events.AuthorErased:
			erased[read[i].StreamID] = true
		case events.PostWithdrawn:
			erased[read[i].StreamID] = true
		case events.PostImported:
			if isErased(read[i].StreamID, e.IntegrationID, e.Comment) {
				e.Comment = nil
				read[i].Event = e
			}
		case events.PostEdited:
			if isErased(read[i].StreamID, e.IntegrationID, e.Comment) {
				e.Comment = nil
				read[i].Event = e
			}
		default: // has no data of an author
		}
	}
	return read
}
