package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
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

// pair is one command that was sent to both replicas at once, and its answers.
type pair struct {
	*command
	answers [2]answer
}

// race sends the command to both replicas at once.
func (l *load) race(replicas [2]*Service, c *command) *pair {
	p := &pair{command: c}
	var both sync.WaitGroup
	start := make(chan struct{})
	for i, r := range replicas {
		both.Go(func() {
			<-start
			p.answers[i] = l.send(l.book.t, r.URL, c.path, c.key, c.body, false)
		})
	}
	close(start)
	both.Wait()
	for _, a := range p.answers {
		l.book.enter(c, a) // compares the identifiers
	}
	return p
}

// replays returns the number of replays among the two answers.
func (p *pair) replays() int {
	n := 0
	for _, a := range p.answers {
		if a.status == http.StatusOK && a.header.Get("Idempotent-Replayed") == "true" {
			n++
		}
	}
	return n
}

// servePatiently starts a service with long time-outs, for tests without time limits on machines that stall for
// seconds.
func servePatiently(t testing.TB, databaseURL string, flags ...string) *Service {
	t.Helper()
	return serve(t, slowly(databaseURL), append(slices.Clone(patient), flags...)...)
}

// slowly allows long connection times.
func slowly(databaseURL string) string {
	if strings.Contains(databaseURL, "?") {
		return databaseURL + "&connect_timeout=30"
	}
	return databaseURL + "?connect_timeout=30"
}

func startTwo(t testing.TB, database string, flags ...string) [2]*Service {
	t.Helper()
	first := servePatiently(t, database, flags...)
	return [2]*Service{first, servePatiently(t, database, flags...)}
}

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
		moves := value[int](t, database, `SELECT count(*) FROM moves`)
		if moves == 0 {
			t.Error("no checkpoint has moved: this test has shown nothing")
		}
		return moves
	}
}

// competed reports from the debug log whether a replica found a checkpoint moved by another one.
func competed(replicas ...*Service) bool {
	return slices.ContainsFunc(replicas, func(r *Service) bool {
		return strings.Contains(r.stderr.String(), "it applies this projection")
	})
}

// TestReplicasRace sends hundreds of commands to two replicas at once: the same keys, on new titles and on shared ones,
// until the replicas have met at a checkpoint.
func TestReplicasRace(t *testing.T) {
	t.Parallel()
	database := startServer(t, nil)
	replicas := startTwo(t, database.url())
	wantChain := watchCheckpoints(t, database.url())
	l := newLoad(t, newPartner(t, database.url()))
	var wrong, next atomic.Int64
	const pairs = 600
	began := time.Now()
	met := func() bool {
		return time.Since(began) > patience || competed(replicas[:]...)
	}
	for sender := range 12 {
		l.all.Go(func() {
			var comments []*command
			for n := next.Add(1); (n <= pairs || !met()) && wrong.Load() < 5; n = next.Add(1) {
				c := l.next(fmt.Sprintf("%d-%d", sender, n), comments)
				p := l.race(replicas, c)
				if p.replays() != 1 || !p.answers[0].succeeded() || !p.answers[1].succeeded() {
					wrong.Add(1)
					t.Errorf("%s %s is answered with %d and %d, want one 201 (or an update) and one replay\n%s\n%s",
						c.path, c.key, p.answers[0].status, p.answers[1].status, p.answers[0].body, p.answers[1].body)
					continue
				}
				if c.path == PostsPath {
					if !c.created {
						t.Errorf("%s %s: no 201", c.path, c.key)
					}
					comments = append(comments, c)
				}
			}
		})
	}
	l.all.Wait()
	l.book.wantOneThreadPerNovel(t)
	seen := l.book.reconcile(t, l.Partner, replicas[1], database.url())
	count := wantSoundLog(t, database.url())
	moves := wantChain()
	if !competed(replicas[:]...) {
		t.Error("no replica has met the other one at a checkpoint: this test has shown nothing")
	}
	t.Logf("%d pairs, all once; %d events; %d moves of checkpoints; answers %v", seen.acknowledged, count, moves,
		l.book.statuses)
}

// wantOneThreadPerNovel checks that all comments on a title have the same thread, and all upserts the same novel.
func (l *deliveryBook) wantOneThreadPerNovel(t testing.TB) {
	t.Helper()
	threads, novels := map[string]string{}, map[string]string{}
	for _, c := range l.commands {
		if c.answered == nil {
			continue
		}
		named, id := novels, c.answered.NovelID.String()
		if c.path == PostsPath {
			named, id = threads, c.answered.ThreadID.String()
		}
		if known, ok := named[c.title]; ok && known != id {
			t.Errorf("%q has %s and %s", c.title, known, id)
		}
		named[c.title] = id
	}
}

// metric returns the value of a metric without labels.
func metric(text, name string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "absent"
}

// TestKilledBesideAnother kills one of two active replicas at a time.
func TestKilledBesideAnother(t *testing.T) {
	t.Parallel()
	database := startServer(t, nil)
	replicas := startTwo(t, database.url())
	wantChain := watchCheckpoints(t, database.url())
	l := newLoad(t, newPartner(t, database.url()))
	l.aim(replicas[:]...)
	l.start(16)
	kills, all := 2, replicas[:]
	for kill := range kills {
		l.book.await(150 + rand.IntN(200))
		replicas[kill%2].kill()
		l.book.await(100)
		replicas[kill%2] = servePatiently(t, database.url())
		all = append(all, replicas[kill%2])
		l.aim(replicas[:]...)
	}
	l.book.await(100)
	testdb.Eventually(t, "a replica meets another one at a checkpoint",
		func() bool { return competed(all...) })
	if seen := l.settle(t, replicas[0], database.url()); seen.unknown == 0 {
		t.Error("no kill met a command on its way: this test has shown nothing")
	}
	t.Logf("%d kills, %d moves of checkpoints", kills, wantChain())
}

// TestDrainHandsOver sends SIGTERM, more than once, to one of two replicas under load. It answers every accepted
// command. It has not executed refused ones: the other replica executes them as new.
func TestDrainHandsOver(t *testing.T) {
	t.Parallel()
	database := startServer(t, nil)
	replicas := startTwo(t, database.url())
	l := newLoad(t, newPartner(t, database.url()))
	var answered, refused atomic.Int64
	var ended atomic.Bool
	for sender := range 16 {
		l.all.Go(func() {
			var comments []*command
			for n := 0; !ended.Load(); n++ {
				c := l.next(fmt.Sprintf("%d-%d", sender, n), comments)
				closing := sender%2 == 0 // the others use connections that stay open
				a := l.send(l.book.t, replicas[0].URL, c.path, c.key, c.body, closing)
				if a.refused() {
					refused.Add(1)
					// The first replica has not executed it.
					if a = l.send(l.book.t, replicas[1].URL, c.path, c.key, c.body, true); a.header.Get("Idempotent-Replayed") != "" {
						t.Errorf("%s %s was carried out by a replica that did not answer", c.path, c.key)
					}
				} else {
					answered.Add(1)
				}
				l.book.enter(c, a)
				if !a.succeeded() {
					t.Errorf("%s %s: %d %v\n%s", c.path, c.key, a.status, a.err, a.body)
					return
				}
			}
		})
	}
	l.book.await(300)
	thaw := database.freezeWriters(t) // so that commands are running during the drain
	began := time.Now()
	replicas[0].signal(t, syscall.SIGTERM)
	var again sync.WaitGroup
	again.Go(func() {
		for range 3 { // supervisors repeat it
			time.Sleep(2 * time.Millisecond)
			_ = replicas[0].cmd.Process.Signal(syscall.SIGTERM) // it may have ended by now
		}
	})
	time.Sleep(500 * time.Millisecond)
	thaw()
	if code := replicas[0].wait(t); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	took := time.Since(began)
	again.Wait()
	handed := refused.Load()
	testdb.Eventually(t, "commands go to the other replica",
		func() bool { return refused.Load() >= handed+100 })
	ended.Store(true)
	l.all.Wait()
	seen := l.book.reconcile(t, l.Partner, replicas[1], database.url())
	if seen.unknown > 0 || answered.Load() == 0 {
		t.Errorf("%d commands have no answer and %d were answered by the first replica, want none and some", seen.unknown,
			answered.Load())
	}
	count := wantSoundLog(t, database.url())
	replicas[1].metrics(t)
	replicas[1].Stop(t)
	t.Logf("drained in %v: %d answered by the first replica, %d handed over; %d events", took, answered.Load(),
		refused.Load(), count)
}

// TestConnectionsStayBelowTheLimit: under load, with readers, and with a rebuild, a replica opens no more connections
// than documented, and completes everything.
func TestConnectionsStayBelowTheLimit(t *testing.T) {
	t.Parallel()
	const limit = database.Connections
	server := startServer(t, nil)
	l := newLoad(t, newPartner(t, server.url()))
	service := servePatiently(t, server.url())
	l.aim(service)
	l.start(16)
	l.book.await(200)
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
	l.book.await(200)
	l.stop()
	if most > limit || most < limit/2 {
		t.Errorf("%d connections, at most %d", most, limit)
	}
	l.book.reconcile(t, l.Partner, service, server.url())
}
