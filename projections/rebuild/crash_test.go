package rebuild_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// Started with these variables, the test binary rebuilds until a number of events is done, reports this, and waits to
// be killed.
const (
	childVariable  = "NOVELGATE_TEST_REBUILD"
	childDatabase  = "NOVELGATE_TEST_REBUILD_DATABASE"
	childUntil     = "NOVELGATE_TEST_REBUILD_UNTIL"
	childCompares  = "NOVELGATE_TEST_REBUILD_COMPARES" // compare instead
	childChunkSize = 50
)

func child() {
	var until events.Position
	if _, err := fmt.Sscan(os.Getenv(childUntil), &until); err != nil {
		panic(err)
	}
	pool, err := pgxpool.New(context.Background(), os.Getenv(childDatabase))
	if err != nil {
		panic(err)
	}
	projection, err := projections.Find(os.Getenv(childVariable))
	if err != nil {
		panic(err)
	}
	run := func(config rebuild.Config) error { _, err := rebuild.Run(context.Background(), config); return err }
	if os.Getenv(childCompares) != "" {
		run = func(config rebuild.Config) error { _, err := rebuild.Compare(context.Background(), config); return err }
	}
	err = run(rebuild.Config{
		Pool: pool, Projection: projection, ChunkSize: childChunkSize, Logger: quiet(),
		Progress: func(p rebuild.Progress) {
			if p.Done >= until {
				fmt.Println(p.Done)
				select {}
			}
		},
	})
	panic(fmt.Sprint("the rebuild has ended: ", err))
}

// TestKilledRebuildGoesOn: a killed rebuild continues where it was, with the right result.
func TestKilledRebuildGoesOn(t *testing.T) {
	t.Parallel()
	const total = 5000
	for _, c := range []struct {
		projection projections.Projection
		until      events.Position
	}{
		{projections.Posts{}, 0},
		{projections.Posts{}, 1000},
		{projections.Activity{}, total / 2},
		{projections.Posts{}, total},
	} {
		t.Run(fmt.Sprintf("%s after %d", c.projection.Name(), c.until), func(t *testing.T) {
			t.Parallel()
			pool, table := newPool(t), c.projection.Tables()[0]
			random := seeded(1)
			for i := range total / 1000 {
				append1(t, pool, comments(random, fmt.Sprint(i), 1000)...)
			}
			kill(t, pool, c.projection.Name(), c.until)

			live := status(t, pool, c.projection.Name())
			if live.Rebuild == nil || live.Rebuild.EventsDone != int64(c.until) || live.Rebuild.EventsTotal != total {
				t.Errorf("after the kill: %+v", live.Rebuild)
			}
			wantRows(t, pool, table, 0)
			var result rebuild.Result
			testdb.Eventually(t, "the lock of the killed process is free", func() bool {
				var err error
				result, err = rebuild.Run(t.Context(),
					rebuild.Config{Pool: pool, Projection: c.projection, ChunkSize: childChunkSize, Logger: quiet()})
				if err != nil && !errors.Is(err, rebuild.ErrUnderWay) {
					t.Fatal(err)
				}
				return err == nil
			})
			if !result.Resumed || result.Events != total-int(c.until) {
				t.Errorf("%+v: want it to go on and read the other events", result)
			}
			rebuilt := digest(t, pool, c.projection)
			if result = mustRun(t, rebuild.Config{Pool: pool, Projection: c.projection}); result.Resumed ||
				result.Events != total {
				t.Errorf("a rebuild after that: %+v", result)
			}
			wantDigest(t, pool, c.projection, rebuilt)
		})
	}
}

// TestKilledComparisonLeavesNothing: the tables of a killed comparison are gone after the next one, and disturb neither
// that nor the live tables.
func TestKilledComparisonLeavesNothing(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	for i := range 12 {
		append1(t, pool, comments(seeded(uint64(i)), fmt.Sprint(i), 1000)...)
	}
	follow(t, pool, projections.Posts{})
	caughtUp(t, pool, "posts")
	schemas := func() int {
		t.Helper()
		return testdb.Value[int](t, pool, `SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'posts\_%'`)
	}
	for _, until := range []events.Position{5000, 12_000} {
		kill(t, pool, "posts", until, childCompares+"=1")
		if n := schemas(); n != 1 {
			t.Errorf("%d schemas after the kill after %d events", n, until)
		}
		testdb.Eventually(t, "the server has noticed", func() (gone bool) {
			err := pool.QueryRow(t.Context(), `SELECT NOT EXISTS (SELECT FROM pg_stat_activity
				WHERE datname = current_database() AND application_name = 'novelgate-rebuild')`).Scan(&gone)
			return err == nil && gone
		})
	}
	if c := compare(t, pool, "posts"); differences(c) != "" || c.Events != 12_000 {
		t.Errorf("%+v", c)
	}
	if n := schemas(); n != 0 {
		t.Errorf("%d schemas are left", n)
	}
}

// kill starts a rebuild in another process and kills it after until events, a multiple of childChunkSize.
func kill(t *testing.T, pool *pgxpool.Pool, name string, until events.Position, environment ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+name, childDatabase+"="+pool.Config().ConnString(),
		fmt.Sprintf("%s=%d", childUntil, until))
	cmd.Env = append(cmd.Env, environment...)
	cmd.Stderr = os.Stderr
	out := testdb.Must(cmd.StdoutPipe())(t)
	testdb.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != fmt.Sprintln(until) {
		t.Errorf("the process said %q, %v; want %d", line, err, until)
	}
	testdb.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
}

func status(t testing.TB, pool *pgxpool.Pool, name string) projections.Status {
	t.Helper()
	list := testdb.Must(projections.List(context.Background(), pool))(t)
	for _, s := range list {
		if s.Name == name {
			return s
		}
	}
	return projections.Status{}
}
