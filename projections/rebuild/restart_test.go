package rebuild_test

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/migrations"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// fragile is a database on a server of its own, which loses asynchronous commits in a crash.
type fragile struct {
	pool   *pgxpool.Pool // replaces broken connections before they are used
	writer int           // the process that would flush asynchronous commits
}

func newFragile(t *testing.T) *fragile {
	t.Helper()
	url := testdb.NewServer(t, map[string]string{"wal_buffers": "16MB", "autovacuum": "off"})
	testdb.Must(migrations.Apply(t.Context(), url))(t)
	config := testdb.Must(pgxpool.ParseConfig(url))(t)
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return true }
	pool := testdb.Must(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(pool.Close)
	f := &fragile{pool: pool}
	f.writer = testdb.Value[int](t, pool, `SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'`)
	return f
}

// keep makes all commits durable, and those after it fragile.
func (f *fragile) keep(t *testing.T) {
	t.Helper()
	testdb.Exec(t, f.pool, `CHECKPOINT`)
	testdb.NoError(t, syscall.Kill(f.writer, syscall.SIGSTOP))
}

// crash makes the server crash, and returns when it has recovered. Unlogged tables are empty then.
func (f *fragile) crash(t *testing.T) {
	t.Helper()
	witness := testdb.Connect(t, f.pool.Config().ConnString())
	testdb.NoError(t, syscall.Kill(f.writer, syscall.SIGKILL))
	testdb.Eventually(t, "the crash", func() bool { return witness.Ping(context.Background()) != nil })
	// By a new connection: one of the pool may live a moment longer.
	testdb.Eventually(t, "the recovery", func() bool {
		conn, err := pgx.ConnectConfig(context.Background(), f.pool.Config().ConnConfig)
		return err == nil && conn.Close(context.Background()) == nil
	})
}

// TestRebuildGoesOnAfterACrash: when a crash of the database, like a failover, has lost the last chunks, the rebuild
// continues from its record, and applies no event twice and leaves none out.
func TestRebuildGoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	const total, kept, crash = 2000, 500, 1500
	for _, p := range []projections.Projection{projections.Posts{}, projections.Activity{}, projections.Titles{}} {
		t.Run(p.Name(), func(t *testing.T) {
			t.Parallel()
			f := newFragile(t)
			append1(t, f.pool, novel(seeded(1), "a novel")...)
			append1(t, f.pool, comments(seeded(1), "a", total-count(t, f.pool, "events"))...)
			crashed, lost := false, events.Position(0)
			result := mustRun(t, rebuild.Config{
				Pool: f.pool, Projection: p, ChunkSize: 50, Progress: func(now rebuild.Progress) {
					switch {
					case crashed:
					case now.Done == kept:
						f.keep(t)
					case now.Done == crash:
						crashed = true
						f.crash(t)
						lost = crash - testdb.Value[events.Position](t, f.pool, `SELECT position FROM projection_rebuilds`)
					}
				},
			})
			if lost <= 0 {
				t.Errorf("the crash has lost %d events of the rebuild", lost)
			}
			if want := total + int(lost); result.Events != want {
				t.Errorf("it has read %d events, want %d with %d lost ones", result.Events, want, lost)
			}
			if c := compare(t, f.pool, p.Name()); differences(c) != "" || c.Position != total || c.Tables[0].Rows == 0 {
				t.Errorf("%+v", c)
			}
		})
	}
}

// TestCompareAfterACrash: a crash empties the replayed tables, which says nothing about the live ones. The comparison
// ends, and can be repeated.
func TestCompareAfterACrash(t *testing.T) {
	t.Parallel()
	f := newFragile(t)
	append1(t, f.pool, comments(seeded(1), "a", 300)...)
	mustRun(t, rebuild.Config{Pool: f.pool, Projection: projections.Posts{}})
	crashed := false
	c, err := rebuild.Compare(t.Context(), rebuild.Config{
		Pool: f.pool, Projection: projections.Posts{}, ChunkSize: 100, Logger: quiet(), Progress: func(p rebuild.Progress) {
			switch {
			case crashed:
			case p.Done == 100:
				f.keep(t) // otherwise the tables themselves may be lost
			case p.Done == 200:
				crashed = true
				f.crash(t)
			}
		},
	})
	if err == nil || !strings.Contains(err.Error(), "the database was restarted: compare again") {
		t.Errorf("%+v, %v", c, err)
	}
	if c := compare(t, f.pool, "posts"); differences(c) != "" || c.Events != 300 {
		t.Errorf("again: %+v", c)
	}
}
