package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// pair is one command, sent to both replicas at once, and what came of it.
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

// replays returns how many of the two answers were replays.
func (p *pair) replays() int {
	n := 0
	for _, a := range p.answers {
		if a.status == http.StatusOK && a.header.Get("Idempotent-Replayed") == "true" {
			n++
		}
	}
	return n
}

// servePatiently starts a service for a test that is not about time: where a machine stands still for seconds no
// request and no start fails of it.
func servePatiently(t testing.TB, databaseURL string, flags ...string) *Service {
	t.Helper()
	return serve(t, slowly(databaseURL), append(slices.Clone(patient), flags...)...)
}

// slowly lets connecting take its time.
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

// watchCheckpoints records every move of every checkpoint. The function that it returns wants each move to start where
// the one before it ended: then no event was applied twice, and none was left out.
func watchCheckpoints(t testing.TB, database string) (wantChain func() int) {
	t.Helper()
	execute(t, database,
		`CREATE TABLE moves (n bigserial, name text, from_transaction xid8, from_position int, to_transaction xid8, to_position int)`,
		`CREATE FUNCTION note_move() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO moves (name, from_transaction, from_position, to_transaction, to_position)
			VALUES (NEW.name, OLD.transaction_id, OLD.position, NEW.transaction_id, NEW.position); RETURN NULL; END $$`,
		`CREATE TRIGGER note_move AFTER UPDATE OF transaction_id, position ON projections FOR EACH ROW EXECUTE FUNCTION note_move()`)
	return func() int {
		t.Helper()
		if broken := value[int](t, database, `SELECT count(*) FROM (SELECT *, lag((to_transaction, to_position)) OVER (PARTITION BY name ORDER BY n) AS before
			FROM moves) AS m WHERE before IS NOT NULL AND before <> (from_transaction, from_position) OR (to_transaction, to_position) <= (from_transaction, from_position)`); broken > 0 {
			t.Errorf("%d moves of checkpoints do not start where the one before them ended", broken)
		}
		moves := value[int](t, database, `SELECT count(*) FROM moves`)
		if moves == 0 {
			t.Error("no checkpoint has moved: this test has shown nothing")
		}
		return moves
	}
}

// competed tells whether one of the replicas has found a checkpoint moved by another one. They say so at the level of
// debugging.
func competed(replicas ...*Service) bool {
	return slices.ContainsFunc(replicas, func(r *Service) bool {
		return strings.Contains(r.stderr.String(), "it applies this projection")
	})
}

// TestReplicasRace sends each of hundreds of commands to two replicas at once: the same key on both, on titles that
// nobody has seen before and on shared ones. It goes on until the replicas have got in each other's way.
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
		return time.Since(began) > patience || competed(replicas[:]...) && conflicts(t, replicas) != [2]string{"0", "0"}
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
	if !competed(replicas[:]...) || conflicts(t, replicas) == [2]string{"0", "0"} {
		t.Error("no replica has met the other one at a checkpoint, or at a title: this test has shown nothing")
	}
	t.Logf("%d pairs, all once; %d events; %d moves of checkpoints; conflicts %v; answers %v", seen.acknowledged, count,
		moves, conflicts(t, replicas), l.book.statuses)
}

// conflicts is how many batches of each replica met what the other one had committed.
func conflicts(t testing.TB, replicas [2]*Service) (found [2]string) {
	t.Helper()
	for i, r := range replicas {
		found[i] = metric(r.metrics(t), "novelgate_committer_conflicts_total")
	}
	return found
}

// wantOneThreadPerNovel wants all comments on one title to name the same thread, and all upserts of it the same novel.
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
