package rebuild_test

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// When replicas with newer code start, one of them rebuilds; the older code goes on until the switch and writes nothing
// after it.
func TestUpgradeWhileOldCodeRuns(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	older := newStamped(t, pool, "changed")
	newer := older
	newer.generation = 2
	random := seeded(1)
	append1(t, pool, comments(random, "first", 200)...)
	follow(t, pool, older)
	caughtUp(t, pool, "changed")

	var replicas sync.WaitGroup
	for range 2 {
		follow(t, pool, newer)
		replicas.Go(func() {
			rebuild.Upgrade(t.Context(),
				rebuild.UpgradeConfig{Pool: pool, Projections: []projections.Projection{newer}, Logger: quiet()})
		})
	}
	for i := range 20 {
		append1(t, pool, comments(random, string(rune('a'+i)), 10)...)
		time.Sleep(5 * time.Millisecond)
	}
	replicas.Wait()
	append1(t, pool, comments(random, "last", 200)...)
	caughtUp(t, pool, "changed")
	if s := status(t, pool, "changed"); s.Generation != 2 || s.State != projections.Running {
		t.Errorf("%+v", s)
	}
	if got, want := digestOf(t, pool, `SELECT generation, count(*) FROM changed GROUP BY 1`), digestOf(t, pool,
		`SELECT 2, 600`); got != want {
		t.Errorf("rows by generation: %s, want %s", got, want)
	}
	if builds := testdb.Value[int](t, pool, `SELECT build - 1 FROM projection_rebuilds WHERE name = 'changed'`); builds != 1 {
		t.Errorf("rebuilt %d times", builds)
	}

	// A replica of the older code that starts again leaves the tables alone.
	rebuild.Upgrade(t.Context(),
		rebuild.UpgradeConfig{Pool: pool, Projections: []projections.Projection{older}, Logger: quiet()})
	if s := status(t, pool, "changed"); s.Generation != 2 {
		t.Errorf("%+v", s)
	}
	// But an operator who goes back to it for good can build its tables.
	mustRun(t, rebuild.Config{Pool: pool, Projection: older})
	if s := status(t, pool, "changed"); s.Generation != 1 {
		t.Errorf("%+v", s)
	}
}

// TestUpgradeAsksAgain: a replica does not rebuild what another one has rebuilt just before it gets the lock.
func TestUpgradeAsksAgain(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	older := newStamped(t, pool, "changed")
	newer := older
	newer.generation = 2
	append1(t, pool, comments(seeded(1), "first", 50)...)
	stop := follow(t, pool, older)
	caughtUp(t, pool, "changed")
	stop()

	raced := false
	logger := slog.New(slog.NewTextHandler(writer(func(line string) {
		if !raced && strings.Contains(line, "The code of a projection has changed") {
			raced = true
			mustRun(t, rebuild.Config{Pool: pool, Projection: newer})
		}
	}), nil))
	rebuild.Upgrade(t.Context(),
		rebuild.UpgradeConfig{Pool: pool, Projections: []projections.Projection{newer}, Logger: logger})
	if !raced {
		t.Error("it did not want to rebuild")
	}
	if builds := testdb.Value[int](t, pool, `SELECT build - 1 FROM projection_rebuilds WHERE name = 'changed'`); builds != 1 {
		t.Errorf("rebuilt %d times", builds)
	}
}

// writer is a function that gets each line of a log.
type writer func(line string)

func (w writer) Write(line []byte) (int, error) {
	w(string(line))
	return len(line), nil
}

// A projection that cannot be rebuilt holds up none of those after it, and is tried again.
func TestUpgradePastOneThatFails(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	random := seeded(1)
	append1(t, pool, comments(random, "first", 50)...)
	stuck, sound := newStamped(t, pool, "stuck"), newStamped(t, pool, "sound")
	follow(t, pool, stuck, sound)
	caughtUp(t, pool, "stuck")
	caughtUp(t, pool, "sound")
	testdb.Exec(t, pool, `CREATE PUBLICATION of_the_stuck FOR TABLE stuck`)
	stuck.generation, sound.generation = 2, 2

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		rebuild.Upgrade(t.Context(), rebuild.UpgradeConfig{
			Pool: pool, Projections: []projections.Projection{stuck, sound}, FailedWait: time.Second, Logger: quiet(),
		})
	}()
	testdb.Eventually(t, "the projection behind the one that fails is rebuilt",
		func() bool { return status(t, pool, "sound").Generation == 2 })
	if s := status(t, pool, "stuck"); s.Generation != 1 || s.Rebuild != nil {
		t.Errorf("%+v", s)
	}
	testdb.Exec(t, pool, `DROP PUBLICATION of_the_stuck`)
	testdb.Eventually(t, "the one that failed is rebuilt, too",
		func() bool { return status(t, pool, "stuck").Generation == 2 })
	<-ended
}
