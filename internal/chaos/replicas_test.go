package chaos_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"novelgate/internal/blackbox"
	"novelgate/internal/testdb"
	"novelgate/internal/testsize"
)

// pair is one command, sent to both replicas at once, and what came of it.
type pair struct {
	*command
	answers [2]answer
}

// race sends the command to both replicas at once.
func (l *load) race(replicas [2]*replica, c *command) *pair {
	p := &pair{command: c}
	var both sync.WaitGroup
	start := make(chan struct{})
	for i, r := range replicas {
		both.Go(func() {
			<-start
			p.answers[i] = l.send(r.URL, c.path, c.key, c.body, false)
		})
	}
	close(start)
	both.Wait()
	for _, a := range p.answers {
		l.ledger.enter(c, a) // compares the identifiers
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
func servePatiently(t testing.TB, databaseURL string, flags ...string) *replica {
	t.Helper()
	return serve(t, slowly(databaseURL), append(slices.Clone(patient), flags...)...)
}

// patient lets a request take its time.
var patient = []string{"--request-timeout", "30s"}

// slowly lets connecting take its time.
func slowly(databaseURL string) string {
	if strings.Contains(databaseURL, "?") {
		return databaseURL + "&connect_timeout=30"
	}
	return databaseURL + "?connect_timeout=30"
}

func startTwo(t testing.TB, database string, flags ...string) [2]*replica {
	t.Helper()
	first := servePatiently(t, database, flags...)
	return [2]*replica{first, servePatiently(t, database, flags...)}
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

// wantCompetition wants that one of the replicas has found a checkpoint moved by another one. They say so at the level
// of debugging.
func wantCompetition(t testing.TB, replicas ...*replica) {
	t.Helper()
	for _, r := range replicas {
		if strings.Contains(r.stderr.String(), "Projection changed hands") {
			return
		}
	}
	t.Error("no replica has met another one at a checkpoint: this test has shown nothing")
}

// TestReplicasRace sends each of thousands of commands to two replicas at once: the same key on both, on titles that
// nobody has seen before and on shared ones.
func TestReplicasRace(t *testing.T) {
	database := startServer(t)
	replicas := startTwo(t, database.url())
	wantChain := watchCheckpoints(t, database.url())
	l := newLoad(t, newPartner(t, database.url()))
	var wrong, next atomic.Int64
	pairs := int64(testsize.Of(2000, 500))
	for sender := range 12 {
		l.all.Go(func() {
			var comments []*command
			for n := next.Add(1); n <= pairs && wrong.Load() < 5; n = next.Add(1) {
				c := l.next(fmt.Sprintf("%d-%d", sender, n), comments)
				p := l.race(replicas, c)
				if p.replays() != 1 || !p.answers[0].succeeded() || !p.answers[1].succeeded() {
					wrong.Add(1)
					t.Errorf("%s %s is answered with %d and %d, want one 201 (or an update) and one replay\n%s\n%s",
						c.path, c.key, p.answers[0].status, p.answers[1].status, p.answers[0].body, p.answers[1].body)
					continue
				}
				if c.path == blackbox.PostsPath {
					if !c.created {
						t.Errorf("%s %s: no 201", c.path, c.key)
					}
					comments = append(comments, c)
				}
			}
		})
	}
	l.all.Wait()
	l.ledger.wantOneThreadPerNovel(t)
	seen := l.ledger.reconcile(t, l.partner, replicas[1], database.url())
	count := wantSoundLog(t, database.url())
	moves := wantChain()
	wantCompetition(t, replicas[:]...)
	var conflicts [2]string
	for i, r := range replicas {
		conflicts[i] = metric(r.metrics(t), "novelgate_committer_conflicts_total")
	}
	if conflicts == [2]string{"0", "0"} {
		t.Error("no replica was faster than the other one: this test has shown nothing")
	}
	t.Logf("%d pairs, all once; %d events; %d moves of checkpoints; conflicts %v; answers %v", seen.acknowledged, count,
		moves, conflicts, l.ledger.statuses)
}

// wantOneThreadPerNovel wants all comments on one title to name the same thread, and all upserts of it the same novel.
func (l *ledger) wantOneThreadPerNovel(t testing.TB) {
	t.Helper()
	threads, novels := map[string]string{}, map[string]string{}
	for _, c := range l.commands {
		if c.answered == nil {
			continue
		}
		named, id := novels, c.answered.NovelID.String()
		if c.path == blackbox.PostsPath {
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

// TestLimitsAcrossReplicas sends more than an integration's limits allow, split over two replicas.
func TestLimitsAcrossReplicas(t *testing.T) {
	database := testdb.New(t)
	replicas := startTwo(t, database, "--allow-unsafe-durability")
	for name, body := range map[string]struct {
		path  string
		flags []string
		make  func(i int) []byte
	}{
		"comments": {blackbox.PostsPath, []string{"--posts-per-minute", "60"}, func(i int) []byte {
			return encode(comment("Limited", "reader", fmt.Sprint(i)))
		}},
		"creations": {blackbox.NovelsPath, []string{"--novels-per-minute", "60"}, func(i int) []byte {
			return encode(map[string]any{"novel": fmt.Sprintf("Limited %d", i)})
		}},
		"creations by comments": {blackbox.PostsPath, []string{"--novels-per-minute", "60"}, func(i int) []byte {
			return encode(comment(fmt.Sprintf("Limited by comment %d", i), "reader", fmt.Sprint(i)))
		}},
	} {
		var accepted int
		for tries := 0; ; tries++ {
			p, began := newPartner(t, database, body.flags...), time.Now()
			accepted = p.press(t, replicas, name, body.path, func(i int) []byte { return body.make(200*tries + i) })
			if took := time.Since(began); took < 55*time.Second {
				break
			} else if tries == 5 {
				t.Fatalf("%s: 200 requests took %v, too long to tell", name, took)
			}
		}
		if accepted != 60 {
			t.Errorf("%s: %d of 200 requests were accepted, want exactly 60", name, accepted)
		}
	}
}

// press sends 200 commands as fast as it can, and returns how many were accepted. The others must be refused for the
// limit.
func (p *partner) press(t *testing.T, replicas [2]*replica, name, path string, body func(i int) []byte) (accepted int) {
	t.Helper()
	var all sync.WaitGroup
	answers := make([]answer, 200)
	for sender := range 8 {
		all.Go(func() {
			for i := sender; i < len(answers); i += 8 {
				answers[i] = p.send(replicas[i/8%2].URL, path, fmt.Sprintf("limited-%d", i), body(i), false)
			}
		})
	}
	all.Wait()
	for _, a := range answers {
		switch {
		case a.succeeded():
			accepted++
		case a.err != nil || a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" ||
			!strings.Contains(string(a.body), "rate_limited"):
			t.Errorf("%s: status %d (%v), want 201 or 429 rate_limited\n%s", name, a.status, a.err, a.body)
		}
	}
	return accepted
}

// TestReplicasMigrateTogether starts four replicas at once on an empty database.
func TestReplicasMigrateTogether(t *testing.T) {
	database := testdb.NewEmpty(t)
	began := time.Now()
	var replicas []*replica
	for range 4 {
		replicas = append(replicas,
			begin(t, append(slices.Clone(patient), "--database-url", slowly(database), "--allow-unsafe-durability")...))
	}
	for _, r := range replicas {
		r.await(t)
	}
	t.Logf("four replicas were up after %v", time.Since(began))
	if twice := value[int](t, database,
		`SELECT count(*) FROM (SELECT FROM goose_db_version GROUP BY version_id HAVING count(*) > 1) AS v`); twice != 0 {
		t.Errorf("%d migrations are recorded more than once", twice)
	}
	p := newPartner(t, database)
	for i, r := range replicas {
		if a := p.send(r.URL, blackbox.PostsPath, fmt.Sprint("key-", i), encode(comment("Four", "reader", "x")),
			false); a.status != http.StatusCreated {
			t.Errorf("replica %d answers %d %v\n%s", i, a.status, a.err, a.body)
		}
	}
}

// TestStaffDecisionsReachAllReplicas changes what an integration may do and measures until every replica acts on it,
// also when the connections that listen for changes were cut just before.
func TestStaffDecisionsReachAllReplicas(t *testing.T) {
	database := testdb.New(t)
	replicas := startTwo(t, database, "--allow-unsafe-durability")
	staff, machine := blackbox.Attach(""), watchStalls(t)
	staff.DatabaseURL = database
	for _, deaf := range []bool{false, true} {
		p := newPartner(t, database)
		key := staff.IssueKey(t, p.id)
		spare := &partner{t: t, id: p.id, key: key.APIKey, http: p.http}
		for _, step := range []struct {
			name   string
			sender *partner
			do     func()
			want   int
		}{
			{"capability disabled", p, func() { staff.CLI(t, "integration", "capability", p.id, "--disable", "posts") }, 403},
			{"capability enabled", p, func() { staff.CLI(t, "integration", "capability", p.id, "--enable", "posts") }, 201},
			{"integration disabled", p, func() { staff.CLI(t, "integration", "disable", p.id) }, 403},
			{"integration enabled", p, func() { staff.CLI(t, "integration", "enable", p.id) }, 201},
			{"key revoked", spare, func() { staff.RevokeKey(t, key.KeyID) }, 401},
		} {
			changed, slowest := spread(t, replicas, step.sender, step.want, func() {
				if deaf {
					execute(t, database, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
						WHERE datname = current_database() AND (application_name = 'novelgate-listen' OR query ILIKE 'listen%')`)
				}
				step.do()
			})
			if machine.exceeds(time.Second, changed, slowest) {
				t.Errorf("%s (listening connections cut: %v): not everywhere within a second, but after %v", step.name, deaf,
					slowest)
			}
			t.Logf("%s (listening connections cut: %v): everywhere after %v", step.name, deaf, slowest)
		}
	}
}

// spread keeps sending to both replicas while change happens, and returns when that had ended, and how long after it
// the last request was sent whose answer was not yet the wanted one. Once wanted, the answer must stay.
func spread(
	t testing.TB, replicas [2]*replica, p *partner, want int, change func(),
) (at time.Time, slowest time.Duration) {
	t.Helper()
	var changed atomic.Pointer[time.Time]
	var latest, reached, answers atomic.Int64
	var all sync.WaitGroup
	stop := make(chan struct{})
	for _, r := range replicas {
		all.Go(func() {
			seen := false
			for {
				select {
				case <-stop:
					if !seen {
						t.Errorf("a replica never answers %d", want)
					}
					return
				case <-time.After(5 * time.Millisecond):
				}
				a := p.send(r.URL, blackbox.PostsPath, blackbox.Key(), encode(comment("Staff", "reader", "x")), false)
				answers.Add(1)
				at := changed.Load()
				switch {
				case a.status == want && seen:
				case a.status == want:
					seen = true
					reached.Add(1)
				case seen:
					t.Errorf("after a first %d comes a %d", want, a.status)
				case at != nil:
					latest.Store(max(latest.Load(), int64(a.sent.Sub(*at))))
				}
			}
		})
	}
	sent := func(n int64) func() bool {
		before := answers.Load()
		return func() bool { return answers.Load() >= before+n }
	}
	blackbox.Eventually(t, patience, "both replicas answer", sent(20))
	change()
	at = time.Now()
	changed.Store(&at)
	blackbox.Eventually(t, patience, "the change is everywhere",
		func() bool { return reached.Load() == int64(len(replicas)) })
	time.Sleep(600 * time.Millisecond) // an answer is believed for half a second: does it stay?
	blackbox.Eventually(t, patience, "both replicas answer", sent(20))
	close(stop)
	all.Wait()
	return at, time.Duration(latest.Load())
}
