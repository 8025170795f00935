package rebuild_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// TestOnlyAnInlineSwitchWaitsForAnAppend: an append that is under way has written to the inline tables, so their switch
// waits for its end. That of an asynchronous projection does not.
func TestOnlyAnInlineSwitchWaitsForAnAppend(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	random := seeded(1)
	append1(t, pool, novel(random, "first")...)
	appending := testdb.Begin(t, pool)
	testdb.NoError(t, projections.Append(t.Context(), appending, novel(random, "second")...))
	mustRun(t, rebuild.Config{Pool: pool, Projection: projections.Novels{}})

	ended := start(rebuild.Config{Pool: pool, Projection: projections.Titles{}})
	testdb.Eventually(t, "the switch waits", func() bool { return waiting(t, pool) })
	select {
	case err := <-ended:
		t.Fatalf("the rebuild has ended during an append: %v", err)
	default:
	}
	testdb.NoError(t, appending.Commit(t.Context()))
	testdb.NoError(t, <-ended)
	wantRows(t, pool, "title_lookup", 2)
}

// TestAppendsWaitForAnInlineSwitch: an inline switch holds the lock of the log, but not as long as a reader keeps the
// switch from the tables.
func TestAppendsWaitForAnInlineSwitch(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	random := seeded(1)
	append1(t, pool, novel(random, "first")...)
	reading := testdb.Begin(t, pool)
	testdb.Exec(t, reading, `SELECT count(*) FROM title_lookup`)
	ended := start(rebuild.Config{Pool: pool, Projection: projections.Titles{}})
	for i := range 3 {
		testdb.Eventually(t, "the switch holds the lock of the log", func() bool {
			return testdb.Value[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
				WHERE locktype = 'advisory' AND granted AND datname = current_database() AND application_name = 'novelgate-rebuild'
				AND (classid::bigint << 32 | objid::bigint) = x'6e6f76656c'::bigint)`)
		})
		append1(t, pool, novel(random, fmt.Sprint("more ", i))...)
	}
	select {
	case err := <-ended:
		t.Fatalf("the rebuild has ended before the reader: %v", err)
	default:
	}
	testdb.NoError(t, reading.Commit(t.Context()))
	testdb.NoError(t, <-ended)
	wantRows(t, pool, "title_lookup", 4)
}

// TestInlineSwitchAppliesFewEvents: appends wait only while a few events are applied; more are applied before the lock.
func TestInlineSwitchAppliesFewEvents(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		late   int // novels whose events arrive just before the switch
		locked bool
	}{
		"few":  {50, true},
		"many": {1500, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			novels := func(prefix string, n int) []events.Recorded {
				var all []events.Recorded
				for i := range n {
					all = append(all, novel(seeded(uint64(i)), fmt.Sprint(prefix, i))...)
				}
				return all
			}
			first, late := novels("first ", 50), novels("late ", test.late)
			append1(t, pool, first...)
			want := len(first)
			if !test.locked {
				want += len(late)
			}
			result := mustRun(t, rebuild.Config{
				Pool: pool, Projection: projections.Titles{}, Progress: func(p rebuild.Progress) {
					if p.Done == events.Position(len(first)) {
						append1(t, pool, late...)
					}
				},
			})
			if result.Events != want {
				t.Errorf("%d events were applied before the lock, want %d", result.Events, want)
			}
			wantRows(t, pool, "title_lookup", 50+test.late)
		})
	}
}

// novel returns the first events of a novel and of its thread.
func novel(random *rand.Rand, title string) []events.Recorded {
	owner := uuid.UUID{1}
	id := events.NovelID(title)
	history := []events.Event{
		events.NovelCreated{Title: title, Slug: "slug-" + title, Author: "A", OwnerID: &owner, State: "approved"},
		events.NovelUpdated{Synopsis: new("S")},
		events.NovelPublished{},
	}[:1+random.IntN(3)]
	var recorded []events.Recorded
	for i, event := range history {
		recorded = append(recorded, events.Recorded{
			StreamType: events.NovelStream, StreamID: id, StreamVersion: i + 1, ID: fmt.Sprintf("%s v%d", title, i+1),
			Source: "tests", Event: event,
		})
	}
	return append(recorded, events.Recorded{
		StreamType: events.ThreadStream, StreamID: events.ThreadID(id), StreamVersion: 1, ID: title + " thread",
		Source: "tests", Event: events.ThreadOpened{NovelID: id},
	})
}
