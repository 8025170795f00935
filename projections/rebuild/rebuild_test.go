package rebuild_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// However the history goes and wherever it is cut, a rebuild comes to the same rows as following it did.
func TestRebuildEqualsFollowing(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		random := seeded(rapid.Uint64().Draw(rt, "seed"))
		for part := range rapid.IntRange(0, 4).Draw(rt, "transactions") {
			append1(t, pool, comments(random, fmt.Sprintf("%d-%d", round, part), rapid.IntRange(1, 30).Draw(rt, "events"))...)
		}
		for _, p := range projections.All() {
			stop := follow(t, pool, p)
			caughtUp(t, pool, p.Name())
			stop()
			want := digest(t, pool, p)
			mustRun(t, rebuild.Config{
				Pool: pool, Projection: p, Workers: rapid.IntRange(1, 4).Draw(rt, "workers"), RangeSize: rapid.IntRange(1, 50).Draw(rt, "range"),
			})
			if diff := cmp.Diff(want, digest(t, pool, p)); diff != "" {
				rt.Fatalf("%s (-followed +rebuilt):\n%s", p.Name(), diff)
			}
		}
	})
}

func TestRebuildIsRefusedWhileOneIsUnderWay(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	append1(t, pool, comments(seeded(1), "a", 10)...)
	settle(t, pool)
	entered, leave := make(chan struct{}), make(chan struct{})
	first := true
	ended := make(chan error, 1)
	go func() {
		_, err := rebuild.Run(context.Background(), rebuild.Config{Pool: pool, Projection: projections.Posts{}, Logger: quiet(), Progress: func(rebuild.Progress) {
			if first {
				first = false
				close(entered)
				<-leave
			}
		}})
		ended <- err
	}()
	<-entered
	_, err := rebuild.Run(t.Context(), rebuild.Config{Pool: pool, Projection: projections.Posts{}, Logger: quiet()})
	if !errors.Is(err, rebuild.ErrUnderWay) {
		t.Errorf("a second rebuild: %v", err)
	}
	// Another projection's is none of its business.
	mustRun(t, rebuild.Config{Pool: pool, Projection: projections.Authors{}})
	close(leave)
	if err := <-ended; err != nil {
		t.Errorf("the first rebuild: %v", err)
	}
	if n := count(t, pool, "posts"); n != 10 {
		t.Errorf("%d posts", n)
	}
}
