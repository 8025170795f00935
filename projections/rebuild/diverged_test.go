package rebuild_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// TestDivergedProjectionIsRebuilt: a projection that has applied an event which is not in the log stops, reports it,
// and is rebuilt, also when the log has another event at that position.
func TestDivergedProjectionIsRebuilt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lose string // beside the first event
		left int
	}{
		"lost":                       {`event_id LIKE 'lost%'`, 19},
		"another event in its place": {`event_id = 'lost-0'`, 23},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, random := newPool(t), seeded(1)
			append1(t, pool, comments(random, "kept", 20)...)
			append1(t, pool, comments(random, "lost", 5)...)
			settle(t, pool)
			follow(t, pool, projections.Posts{})
			caughtUp(t, pool, "posts")
			// In one transaction: otherwise a projection could continue in the new log between the two steps.
			if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				testdb.Lose(t, tx, `event_id = 'kept-0' OR `+test.lose)
				_, err := tx.Exec(t.Context(),
					`UPDATE events SET recorded_at = recorded_at + interval '1 microsecond' WHERE event_id LIKE 'lost%'`)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			testdb.Eventually(t, "diverged", func() bool { return status(t, pool, "posts").State == projections.Diverged })
			if s := status(t, pool, "posts"); s.Error == nil || !strings.Contains(*s.Error, "does not have event") ||
				s.FailedAt != nil {
				t.Errorf("status of a projection that has diverged: %+v", s)
			}
			if err := projections.Retry(t.Context(), pool, "posts"); !errors.Is(err, projections.ErrNotFailed) {
				t.Fatalf("retry of a projection that has diverged: %v, want ErrNotFailed", err)
			}
			rebuild.Upgrade(t.Context(),
				rebuild.UpgradeConfig{Pool: pool, Projections: []projections.Projection{projections.Posts{}}, Logger: quiet()})
			if s := status(t, pool, "posts"); s.State != projections.Running || s.Error != nil {
				t.Errorf("status after the rebuild: %+v", s)
			}
			append1(t, pool, comments(random, "new", 3)...)
			caughtUp(t, pool, "posts")
			if n := count(t, pool, "posts"); n != test.left+3 {
				t.Errorf("%d comments, the log has %d", n, test.left+3)
			}
		})
	}
}
