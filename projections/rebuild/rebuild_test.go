package rebuild_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// TestRebuildEqualsFollowing: for any history and any interruptions, a rebuild gives the same rows as following the
// log, also where events change rows of earlier ones.
func TestRebuildEqualsFollowing(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	followed := append(projections.All(), newStamped(t, pool, "marked"))
	follow(t, pool, followed...)
	round, total := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		random := seeded(rapid.Uint64().Draw(rt, "seed"))
		for part := range rapid.IntRange(0, 4).Draw(rt, "transactions") {
			batch := comments(random, fmt.Sprintf("%d-%d", round, part), rapid.IntRange(1, 30).Draw(rt, "events"))
			for i := range rapid.IntRange(0, min(3, len(batch))).Draw(rt, "approvals") {
				batch = append(batch, approval(batch[i], 2), approval(batch[i], 3))
			}
			append1(t, pool, batch...)
			total += len(batch)
		}
		which := rapid.SampledFrom(followed).Draw(rt, "projection")
		caughtUp(t, pool, which.Name())
		want := digestWithout(t, pool, which)
		config := rebuild.Config{Pool: pool, Projection: which, ChunkSize: rapid.IntRange(1, 200).Draw(rt, "chunk")}
		interruptions := rapid.SliceOfN(rapid.IntRange(0, total), 0, 2).Draw(rt, "interruptions")
		for _, after := range interruptions {
			interrupt(rt, config, events.Position(after))
		}
		if result := mustRun(t, config); result.Resumed != (len(interruptions) > 0) {
			rt.Errorf("after %d interruptions: %+v", len(interruptions), result)
		}
		if diff := cmp.Diff(want, digestWithout(t, pool, which)); diff != "" {
			rt.Fatalf("%s (-followed +rebuilt):\n%s", which.Name(), diff)
		}
	})
}

// digestWithout is digest without the column that numbers rows in order of arrival.
func digestWithout(t testing.TB, pool *pgxpool.Pool, p projections.Projection) string {
	t.Helper()
	if _, ok := p.(stamped); ok {
		return digestOf(t, pool, `SELECT post_id, generation, marks FROM `+p.Name())
	}
	return digest(t, pool, p)
}

func TestRebuildIsRefusedWhileOneIsUnderWay(t *testing.T) {
	t.Parallel()
	pool := filled(t, "a", 10)
	entered, leave := make(chan struct{}), make(chan struct{})
	first := true
	ended := make(chan error, 1)
	go func() {
		_, err := rebuild.Run(context.Background(), rebuild.Config{
			Pool: pool, Projection: projections.Posts{},
			Logger: quiet(), Progress: func(rebuild.Progress) {
				if first {
					first = false
					close(entered)
					<-leave
				}
			},
		})
		ended <- err
	}()
	<-entered
	_, err := rebuild.Run(t.Context(), rebuild.Config{Pool: pool, Projection: projections.Posts{}, Logger: quiet()})
	if !errors.Is(err, rebuild.ErrUnderWay) {
		t.Errorf("a second rebuild: %v", err)
	}
	if _, err := rebuild.Discard(t.Context(), pool, projections.Posts{}); !errors.Is(err, rebuild.ErrUnderWay) {
		t.Errorf("to discard it: %v", err)
	}
	// A rebuild of another projection is independent.
	mustRun(t, rebuild.Config{Pool: pool, Projection: projections.Activity{}})
	close(leave)
	if err := <-ended; err != nil {
		t.Errorf("the first rebuild: %v", err)
	}
	wantRows(t, pool, "posts", 10)
}

// TestOnlyTheBuilderOnRecordWrites: a builder that was replaced without noticing writes nothing more.
func TestOnlyTheBuilderOnRecordWrites(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		after   events.Position // at which the builder is replaced
		replace string
	}{
		"before it writes":      {0, `builder = gen_random_uuid()`},
		"while it replays":      {40, `builder = gen_random_uuid()`},
		"before it switches":    {100, `builder = gen_random_uuid()`},
		"by one that has ended": {40, `finished_at = now()`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := filled(t, "a", 100)
			_, err := rebuild.Run(t.Context(), rebuild.Config{
				Pool: pool, Projection: projections.Posts{}, ChunkSize: 10, Logger: quiet(),
				Progress: func(p rebuild.Progress) {
					if p.Done == test.after {
						testdb.Exec(t, pool, `UPDATE projection_rebuilds SET `+test.replace)
					}
				},
			})
			if !errors.Is(err, rebuild.ErrTakenOver) {
				t.Errorf("got %v", err)
			}
			wantRows(t, pool, "authors", 0)
			if at := testdb.Value[events.Position](t, pool, `SELECT position FROM projection_rebuilds`); at != test.after {
				t.Errorf("it went on from %d to %d", test.after, at)
			}
		})
	}
}

// TestMigrationDuringARebuild: if a migration changes a table, the rebuild fails, and the next one starts again.
func TestMigrationDuringARebuild(t *testing.T) {
	t.Parallel()
	pool := filled(t, "a", 100)
	altered := false
	_, err := rebuild.Run(t.Context(), rebuild.Config{
		Pool: pool, Projection: projections.Posts{}, Logger: quiet(),
		Progress: func(rebuild.Progress) {
			if !altered {
				altered = true
				if _, err := pool.Exec(t.Context(), `ALTER TABLE posts ADD COLUMN note text NOT NULL DEFAULT 'none'`); err != nil {
					t.Error(err)
				}
			}
		},
	})
	if !errors.Is(err, rebuild.ErrStructure) {
		t.Errorf("got %v", err)
	}
	if result := mustRun(t, rebuild.Config{Pool: pool, Projection: projections.Posts{}}); result.Resumed {
		t.Error("the next one went on with old tables")
	}
	if noted := testdb.Value[int](t, pool, `SELECT count(*) FROM posts WHERE note = 'none'`); noted != 100 {
		t.Errorf("%d rows with the new column", noted)
	}
}

// TestRebuildFromNothing: an empty log gives empty tables.
func TestRebuildFromNothing(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	for _, p := range projections.All() {
		mustRun(t, rebuild.Config{Pool: pool, Projection: p})
		if s := status(t, pool, p.Name()); s.State != projections.Running || s.Rebuild != nil {
			t.Errorf("%+v", s)
		}
	}
	append1(t, pool, comments(seeded(1), "a", 5)...)
	follow(t, pool, projections.Posts{})
	caughtUp(t, pool, "posts")
	wantRows(t, pool, "posts", 5)
}

// TestRebuildBeginsAgain: a rebuild does not continue one of an older generation, which derives other rows, or one
// whose tables are gone: it writes to no tables that only have the same names.
func TestRebuildBeginsAgain(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]string{
		"older code": `UPDATE projection_rebuilds SET generation = generation - 1`,
		"no tables":  `DROP SCHEMA posts_2 CASCADE`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := filled(t, "a", 100)
			interrupt(t, rebuild.Config{Pool: pool, Projection: projections.Posts{}, ChunkSize: 10}, 50)
			testdb.Exec(t, pool, left)
			var live []int
			result := mustRun(t, rebuild.Config{
				Pool: pool, Projection: projections.Posts{}, ChunkSize: 10,
				Progress: func(rebuild.Progress) { live = append(live, count(t, pool, "posts")) },
			})
			if result.Resumed || result.Events != 100 {
				t.Errorf("%+v", result)
			}
			if slices.Max(live) != 0 {
				t.Errorf("posts before the switch: %v", live)
			}
			wantRows(t, pool, "posts", 100)
		})
	}
}

// TestProgress: events of the log are counted, also those of other stream types, and those before an interruption.
func TestProgress(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	append1(t, pool, novel(seeded(1), "first")...)
	append1(t, pool, comments(seeded(1), "a", 40)...)
	total := events.Position(count(t, pool, "events"))
	config := rebuild.Config{Pool: pool, Projection: projections.Posts{}, ChunkSize: 10}
	var seen []rebuild.Progress
	for _, after := range []events.Position{20, total} {
		interrupt(t, config, after)
	}
	append1(t, pool, comments(seeded(2), "b", 5)...)
	config.Progress = func(p rebuild.Progress) { seen = append(seen, p) }
	if result := mustRun(t, config); !result.Resumed || result.Events != 5 {
		t.Errorf("%+v", result)
	}
	want := []rebuild.Progress{{Done: total, Total: total}, {Done: total + 5, Total: total + 5}}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
