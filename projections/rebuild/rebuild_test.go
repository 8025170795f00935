package rebuild_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"novelgate/events"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// TestRebuildEqualsFollowing: for any history and any interruption, a rebuild gives the same rows as following the log,
// also where events change rows of earlier ones.
func TestRebuildEqualsFollowing(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	marked := newStamped(t, pool, "marked")
	followed := []projections.Projection{projections.Posts{}, projections.Authors{}, inBulk{marked}}
	follow(t, pool, followed...)
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		random := seeded(rapid.Uint64().Draw(rt, "seed"))
		for part := range rapid.IntRange(0, 4).Draw(rt, "transactions") {
			batch := comments(random, fmt.Sprintf("%d-%d", round, part), rapid.IntRange(1, 30).Draw(rt, "events"))
			for i := range rapid.IntRange(0, min(3, len(batch))).Draw(rt, "approvals") {
				batch = append(batch, approval(batch[i], 2), approval(batch[i], 3))
			}
			append1(t, pool, batch...)
		}
		which := rapid.SampledFrom(followed).Draw(rt, "projection")
		caughtUp(t, pool, which.Name())
		want := digestWithout(t, pool, which)
		mustRun(t, rebuild.Config{
			Pool: pool, Projection: which, Workers: rapid.IntRange(1, 4).Draw(rt, "workers"),
			ChunkSize: rapid.IntRange(1, 200).Draw(rt, "range"),
		})
		if diff := cmp.Diff(want, digestWithout(t, pool, which)); diff != "" {
			rt.Fatalf("%s (-followed +rebuilt):\n%s", which.Name(), diff)
		}
	})
}

// digestWithout is digest without the column that numbers rows in order of arrival.
func digestWithout(t testing.TB, pool *pgxpool.Pool, p projections.Projection) string {
	t.Helper()
	if _, ok := p.(inBulk); ok {
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
	// A rebuild of another projection is independent.
	mustRun(t, rebuild.Config{Pool: pool, Projection: projections.Authors{}})
	close(leave)
	if err := <-ended; err != nil {
		t.Errorf("the first rebuild: %v", err)
	}
	if n := count(t, pool, "posts"); n != 10 {
		t.Errorf("%d posts", n)
	}
}

// TestOnlyTheBuilderOnRecordWrites: a builder that was replaced without noticing writes nothing more.
func TestOnlyTheBuilderOnRecordWrites(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]projections.Projection{
		"bulk":     projections.Posts{},
		"in order": projections.Authors{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := filled(t, "a", 100)
			_, err := rebuild.Run(t.Context(), rebuild.Config{
				Pool: pool, Projection: p, Workers: 1, ChunkSize: 10,
				Logger: quiet(), Progress: func(rebuild.Progress) {
					if _, err := pool.Exec(t.Context(), `UPDATE projection_rebuilds SET builder = gen_random_uuid()`); err != nil {
						t.Error(err)
					}
				},
			})
			if !errors.Is(err, rebuild.ErrTakenOver) {
				t.Errorf("got %v", err)
			}
			if n := count(t, pool, p.Name()); n != 0 {
				t.Errorf("%d rows", n)
			}
		})
	}
}

// usurped is a projection whose rebuild is taken over while it applies events.
type usurped struct {
	projections.Authors
	takeOver func()
}

func (u usurped) Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	u.takeOver()
	return u.Authors.Apply(ctx, tx, batch)
}

// TestTakenOverWhileFollowing: events that a replaced builder has applied do not count.
func TestTakenOverWhileFollowing(t *testing.T) {
	t.Parallel()
	pool := filled(t, "a", 100)
	p := usurped{takeOver: func() {
		if _, err := pool.Exec(t.Context(), `UPDATE projection_rebuilds SET builder = gen_random_uuid()`); err != nil {
			t.Error(err)
		}
	}}
	if _, err := rebuild.Run(t.Context(), rebuild.Config{Pool: pool, Projection: p, Logger: quiet()}); !errors.Is(err,
		rebuild.ErrTakenOver) {
		t.Errorf("got %v", err)
	}
	if done := testdb.Value[int](t, pool, `SELECT events_done FROM projection_rebuilds`); done != 0 {
		t.Errorf("%d events are done", done)
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
	if n := count(t, pool, "posts"); n != 5 {
		t.Errorf("%d posts", n)
	}
}

// TestRebuildOfAnotherVersionBeginsAgain: a rebuild does not continue one of another method, which stores its position
// elsewhere, or of an older generation, which derives other rows.
func TestRebuildOfAnotherVersionBeginsAgain(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]string{
		"another way": `structure = right(structure, 32), transaction_id = '0', position = 0, events_done = 0`,
		"older code":  `generation = generation - 1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := filled(t, "a", 100)
			interrupt(t, rebuild.Config{Pool: pool, Projection: projections.Posts{}, ChunkSize: 10}, 50)
			testdb.Exec(t, pool, `UPDATE projection_rebuilds SET `+left) // as that version would leave it
			result := mustRun(t, rebuild.Config{Pool: pool, Projection: projections.Posts{}})
			if result.Resumed || result.Events != 100 {
				t.Errorf("%+v", result)
			}
			if n := count(t, pool, "posts"); n != 100 {
				t.Errorf("%d posts", n)
			}
		})
	}
}

// TestIndexesComeLast: indexes are made after the old events are loaded.
func TestIndexesComeLast(t *testing.T) {
	t.Parallel()
	pool := filled(t, "a", 100)
	indexes := map[string]int{}
	mustRun(t, rebuild.Config{
		Pool: pool, Projection: projections.Posts{}, ChunkSize: 10,
		Progress: func(p rebuild.Progress) {
			var n int
			if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_indexes WHERE schemaname = 'posts_2'`).Scan(&n); err != nil {
				t.Error(err)
			}
			indexes[p.Phase] = n
		},
	})
	want := map[string]int{rebuild.Loading: 0, rebuild.Indexing: 5, rebuild.Following: 5}
	if diff := cmp.Diff(want, indexes); diff != "" {
		t.Errorf("indexes by phase (-want +got):\n%s", diff)
	}
}

// TestFailedIndexIsOnRecord: the record of a rebuild whose index cannot be created names the reason.
func TestFailedIndexIsOnRecord(t *testing.T) {
	t.Parallel()
	pool := filled(t, "a", 10)
	_, err := rebuild.Run(t.Context(), rebuild.Config{
		Pool: pool, Projection: projections.Posts{}, Logger: quiet(), Progress: func(p rebuild.Progress) {
			if p.Phase == rebuild.Indexing {
				testdb.Exec(t, pool, `INSERT INTO posts_2.posts SELECT * FROM posts_2.posts LIMIT 1`)
			}
		},
	})
	if err == nil {
		t.Fatal("the rebuild created a unique index over duplicates")
	}
	if reason := testdb.Value[*string](t, pool, `SELECT error FROM projection_rebuilds`); reason == nil {
		t.Errorf("no reason on record of: %v", err)
	}
}
