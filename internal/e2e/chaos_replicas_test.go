package e2e_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// watchCheckpoints records every move of every checkpoint. wantChain checks that each move starts where the previous
// one ended: then no event was applied twice or left out.
func watchCheckpoints(t testing.TB, database string) (wantChain func() int) {
	t.Helper()
	execute(t, database,
		`CREATE TABLE moves (n bigserial, name text, start bigint, stop bigint)`,
		`CREATE FUNCTION note_move() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO moves (name, start, stop) VALUES (NEW.name, OLD.position, NEW.position); RETURN NULL; END $$`,
		`CREATE TRIGGER note_move AFTER UPDATE OF position ON projections FOR EACH ROW EXECUTE FUNCTION note_move()`)
	return func() int {
		t.Helper()
		if broken := value[int](t, database, `SELECT count(*) FROM (SELECT *, lag(stop) OVER (PARTITION BY name ORDER BY n) AS before
			FROM moves) AS m WHERE before <> start OR stop <= start`); broken > 0 {
			t.Errorf("%d moves of checkpoints do not start where the one before them ended", broken)
		}
		return value[int](t, database, `SELECT count(*) FROM moves`)
	}
}

// competed reports from the debug log whether a replica found a checkpoint moved by another one.
func competed(replicas ...*Service) bool {
	return slices.ContainsFunc(replicas, func(r *Service) bool {
		return strings.Contains(r.stderr.String(), "it applies this projection")
	})
}

// TestKilledBesideAnother kills one of two active replicas at a time. Packages committer and projections test replicas
// that race.
func TestKilledBesideAnother(t *testing.T) {
	t.Parallel()
	database := startServer(t, nil)
	replicas := []*Service{servePatiently(t, database.url()), servePatiently(t, database.url())}
	wantChain := watchCheckpoints(t, database.url())
	l := startLoad(t, newPartner(t, database.url()), 16, replicas...)
	all := slices.Clone(replicas)
	for kill := range 2 {
		l.await(150 + rand.IntN(200))
		replicas[kill].kill()
		l.await(100)
		replicas = slices.Clone(replicas)
		replicas[kill] = servePatiently(t, database.url())
		all = append(all, replicas[kill])
		l.target.Store(&replicas)
	}
	l.await(100)
	testdb.Eventually(t, "a replica meets another one at a checkpoint",
		func() bool { return competed(all...) })
	if seen := l.settle(replicas[0], database.url()); seen.unknown == 0 {
		t.Error("no kill met a command on its way: this test has shown nothing")
	}
	t.Logf("%d moves of checkpoints", wantChain())
}

// TestDrainHandsOver sends SIGTERM, more than once, to one of two replicas under load. It answers every accepted
// command. It has not executed refused ones: the other replica executes them as new.
func TestDrainHandsOver(t *testing.T) {
	t.Parallel()
	database := startServer(t, nil)
	first, second := servePatiently(t, database.url()), servePatiently(t, database.url())
	l := newLoad(t, newPartner(t, database.url()))
	var answered, handed atomic.Int64
	l.deliver = func(c *command) answer {
		request := c.Request
		request.Closing = rand.IntN(2) == 0 // the others use connections that stay open
		a := first.send(t, request)
		if !a.refused() {
			answered.Add(1)
			return a
		}
		handed.Add(1)
		if a = second.send(t, c.Request); a.Header.Get("Idempotent-Replayed") != "" {
			t.Errorf("%s was carried out by a replica that did not answer", c)
		}
		return a
	}
	l.watch = func(a answer) {
		if !a.succeeded() {
			t.Errorf("%d %v\n%s", a.Status, a.err, a.Body)
		}
	}
	l.start(16)
	l.await(300)
	thaw := database.freezeWriters(t) // so that commands are running during the drain
	first.signal(t, syscall.SIGTERM)
	for range 3 { // supervisors repeat it
		time.Sleep(2 * time.Millisecond)
		_ = first.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by now
	}
	time.Sleep(500 * time.Millisecond)
	thaw()
	if code := first.wait(t); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	before := handed.Load()
	testdb.Eventually(t, "commands go to the other replica", func() bool { return handed.Load() >= before+100 })
	if seen := l.settle(second, database.url()); seen.unknown > 0 || answered.Load() == 0 {
		t.Errorf("%d commands have no answer and %d were answered by the first replica", seen.unknown, answered.Load())
	}
	second.Stop(t)
}

// TestConnectionsStayBelowTheLimit: under load, with readers, and with a rebuild, a replica opens no more connections
// than documented, and completes everything.
func TestConnectionsStayBelowTheLimit(t *testing.T) {
	t.Parallel()
	const limit = database.Connections
	server := startServer(t, nil)
	service := servePatiently(t, server.url())
	l := startLoad(t, newPartner(t, server.url()), 16, service)
	l.await(200)
	execute(t, server.url(), `UPDATE projections SET generation = generation - 1 WHERE name = 'posts'`)
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for range 40 {
				if status, body := Get(t, service.URL+"/novels"); status != 200 {
					t.Errorf("a page is answered with %d %s", status, body)
					return
				}
			}
		})
	}
	most := 0
	testdb.Eventually(t, "the projection is rebuilt", func() bool {
		most = max(most, value[int](t, server.url(),
			`SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'novelgate%'`))
		return value[bool](t, server.url(),
			`SELECT EXISTS (SELECT FROM projection_rebuilds WHERE name = 'posts' AND finished_at IS NOT NULL)`)
	})
	readers.Wait()
	l.await(200)
	if most > limit || most < limit/2 {
		t.Errorf("%d connections, at most %d", most, limit)
	}
	l.settle(service, server.url())
}
