package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"novelgate/internal/testdb"
	"novelgate/projections"
)

// The service promises an answer within two seconds. A busy machine adds waits to the measured time. A request that
// hangs takes far longer.
const (
	promised = 2 * time.Second
	busy     = 1500 * time.Millisecond
)

// witness records every answer.
type witness struct {
	*stalls
	mu      sync.Mutex
	answers []answer
}

func (w *witness) see(a answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers = append(w.answers, a)
}

// between returns the answers to requests within a period.
func (w *witness) between(from, to time.Time) []answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.answers), func(a answer) bool {
		return a.sent.Before(from) || a.sent.Add(a.took).After(to)
	})
}

// outage is the measured behaviour of the service during an outage of the database.
type outage struct {
	refused       int           // requests answered with 503
	slowest       time.Duration // of these
	firstAfter    time.Duration // from the return of the database to the first success
	lastRefusal   time.Duration // … and to the sending of the last request that was refused
	projectedSoon time.Duration // … and until the projections stood at the end of the log
}

// wantRefusals checks that each request during the outage got 503 in time.
func wantRefusals(t testing.TB, w *witness, answers []answer) (slowest time.Duration) {
	t.Helper()
	for _, a := range answers {
		slowest = max(slowest, a.took)
		if !a.unavailable() {
			t.Errorf("while the database is away a request is answered with %d after %v, want 503 unavailable with "+
				"Retry-After (%v)\n%s", a.status, a.took, a.err, a.body)
			break
		}
		if w.late(a) {
			t.Errorf("a request was answered after %v, the promise is %v", a.took, promised)
		}
	}
	return slowest
}

// awaitRefusals waits until every connection of the load has got a refusal.
func awaitRefusals(t testing.TB, w *witness, away time.Time) {
	t.Helper()
	testdb.Eventually(t, "requests are refused while the database is away",
		func() bool { return len(w.between(away, time.Now())) >= 16 })
}

// measure waits until commands succeed again, and measures the outage. back is the time when the database was up again.
func measure(t testing.TB, w *witness, away, back time.Time) outage {
	t.Helper()
	meanwhile := w.between(away, back)
	o := outage{refused: len(meanwhile), slowest: wantRefusals(t, w, meanwhile)}
	succeeded := func() []answer {
		return slices.DeleteFunc(w.between(back, time.Now()), func(a answer) bool { return !a.succeeded() })
	}
	testdb.Eventually(t, "commands succeed again", func() bool { return len(succeeded()) >= 200 })
	o.firstAfter = patience
	for _, a := range w.between(back, time.Now()) {
		if a.succeeded() {
			o.firstAfter = min(o.firstAfter, a.sent.Add(a.took).Sub(back))
		} else {
			o.lastRefusal = max(o.lastRefusal, a.sent.Sub(back))
		}
	}
	return o
}

// TestDatabaseCrashes stops PostgreSQL immediately, under load, and starts it again after a while.
func TestDatabaseCrashes(t *testing.T) {
	database, service, l, w := underLoad(t, 20*time.Millisecond)
	l.book.await(100)
	database.crash(t)
	away := time.Now()
	wantDegraded(t, service)
	wantReaderRefused(t, service, w)
	awaitRefusals(t, w, away)
	back := time.Now()
	database.start(t)
	started := time.Now()
	o := measure(t, w, away, back)
	recorded := readLog(t, database.url())
	testdb.Eventually(t, "the projections go on", func() bool {
		return value[int](t, database.url(), `SELECT count(*) FROM projections WHERE position >= $1`, len(recorded)) ==
			len(projections.All())
	})
	o.projectedSoon = time.Since(started)
	t.Logf("away for %v, recovery of PostgreSQL took %v: %d requests refused, the slowest after %v; first success %v "+
		"after the return, last refusal %v, projections %v",
		back.Sub(away), started.Sub(back), o.refused, o.slowest, o.firstAfter, o.lastRefusal, o.projectedSoon)
	l.settle(t, service, database.url())
}

// wantDegraded checks routes that do not need the database, and those that report the outage.
func wantDegraded(t *testing.T, service *Service) {
	t.Helper()
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503} {
		if status, body := Get(t, service.OpsURL+path); status != want {
			t.Errorf("%s is %d while the database is away, want %d\n%s", path, status, want, body)
		}
	}
	service.Send(t, Request{Path: "/nowhere"}).WantProblem(t, 404, "not_found")
	unavailable := service.Send(t,
		(&Partner{NewIntegration: NewIntegration{APIKey: "ngp_" + strings.Repeat("0", 36)}}).Request(
			PostsPath, "k", []byte(`{}`)))
	unavailable.WantProblem(t, 401, "unauthorized") // malformed: needs no database
	if metrics := service.metrics(t); !strings.Contains(metrics, "novelgate_projections_up 0") {
		t.Error("/metrics does not say that the state of the projections is unknown")
	}
}

// wantReaderRefused checks that a reader gets 503 in time, too.
func wantReaderRefused(t *testing.T, service *Service, w *witness) {
	t.Helper()
	sent := time.Now()
	service.Send(t, Request{Path: "/api/novels"}).WantProblem(t, 503, "unavailable")
	took := time.Since(sent)
	if w.exceeds(promised, sent, took) {
		t.Errorf("a reader was answered after %v, the promise is %v", took, promised)
	}
	t.Logf("a reader was answered after %v", took)
}

// TestDatabaseGoesSilent suspends all processes of PostgreSQL for a while: connections stay open, new ones are
// accepted, but nothing is answered.
func TestDatabaseGoesSilent(t *testing.T) {
	database, service, l, w := underLoad(t, 20*time.Millisecond)
	l.book.await(100)
	before := time.Now()
	thaw := database.freeze(t)
	away := time.Now()
	awaitRefusals(t, w, away)
	wantReaderRefused(t, service, w)
	back := time.Now()
	thaw()
	o := measure(t, w, away, back)
	wantPromptAnswers(t, w, before)
	t.Logf("silent for %v: %d requests refused, the slowest after %v; first success %v after the return, last refusal %v",
		back.Sub(away), o.refused, o.slowest, o.firstAfter, o.lastRefusal)
	l.settle(t, service, database.url())
}

// wantPromptAnswers checks that every request is answered in time.
func wantPromptAnswers(t testing.TB, w *witness, began time.Time) {
	t.Helper()
	var slowest answer
	for _, a := range w.between(began, time.Now()) {
		if a.took > slowest.took {
			slowest = a
		}
		if w.late(a) {
			t.Errorf("a request was answered with %d after %v, the promise is %v", a.status, a.took, promised)
		}
	}
	t.Logf("the slowest answer was a %d after %v", slowest.status, slowest.took)
}

// TestReadinessSaysWhatCommandsMeet makes the primary of a running service read-only, in two ways, and writable again:
// commands get 503, /readyz and the metric show the reason, and all recovers by itself.
func TestReadinessSaysWhatCommandsMeet(t *testing.T) {
	t.Parallel()
	database := startServer(t, nil)
	service := serve(t, slowly(database.url()), "--request-timeout", "10s")
	p := newPartner(t, database.url())
	sent := 0
	send := func() answer {
		sent++
		return p.send(t, service.URL, PostsPath, fmt.Sprint("k-", sent), encode(comment("Title", "reader", "word")),
			false)
	}
	if a := send(); !a.succeeded() {
		t.Fatalf("%d %s", a.status, a.body)
	}
	name := value[string](t, database.url(), `SELECT current_database()`)
	for how, statements := range map[string]struct{ on, off []string }{
		"for running sessions": {
			[]string{`ALTER SYSTEM SET default_transaction_read_only = on`, `SELECT pg_reload_conf()`},
			[]string{`ALTER SYSTEM RESET default_transaction_read_only`, `SELECT pg_reload_conf()`},
		},
		"for new sessions": {
			[]string{
				`ALTER DATABASE ` + name + ` SET default_transaction_read_only = on`,
				`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'novelgate%'`,
			},
			[]string{`ALTER DATABASE ` + name + ` RESET default_transaction_read_only`},
		},
	} {
		execute(t, database.url(), statements.on...)
		testdb.Eventually(t, how+": /readyz says that the database is read-only", func() bool {
			status, body := Get(t, service.OpsURL+"/readyz")
			return status == 503 && strings.Contains(body, "read-only") && strings.Contains(body, `"append"`) &&
				strings.Contains(body, `"access"`)
		})
		if a := send(); !a.unavailable() {
			t.Errorf("%s: a command is answered with %d (%v)\n%s", how, a.status, a.err, a.body)
		}
		if metrics := service.metrics(t); !strings.Contains(metrics, `novelgate_ready{pool="append"} 0`) {
			t.Errorf("%s: the metric does not say that commands cannot be carried out", how)
		}
		execute(t, database.url(), append([]string{`SET default_transaction_read_only = off`}, statements.off...)...)
		service.awaitReady(t)
		if a := send(); !a.succeeded() {
			t.Errorf("%s: after it was ready again, a command is answered with %d (%v)\n%s", how, a.status, a.err, a.body)
		}
		testdb.Eventually(t, how+": the metric says that commands can be carried out", func() bool {
			return strings.Contains(service.metrics(t), `novelgate_ready{pool="append"} 1`)
		})
	}
	wantComments(t, database.url(), 3)
}

// wantComments checks the number of comments in the log and in the read model.
func wantComments(t *testing.T, databaseURL string, comments int) {
	t.Helper()
	testdb.Eventually(t, "the comments are projected", func() bool {
		return value[int](t, databaseURL, `SELECT count(*) FROM posts`) == comments
	})
	if n := value[int](t, databaseURL, `SELECT count(*) FROM events WHERE event_type = 'post.imported.v1'`); n != comments {
		t.Errorf("%d comments in the log, want %d", n, comments)
	}
}

// stalls are periods in which this process, and so probably the whole machine, stood still. Promises about time do not
// include them.
type stalls struct {
	mu   sync.Mutex
	list []stall
}

type stall struct {
	from time.Time
	took time.Duration
}

// watchStalls records stalls until the test ends.
func watchStalls(t testing.TB) *stalls {
	t.Helper()
	const (
		pause       = 5 * time.Millisecond
		worthNoting = 50 * time.Millisecond // shorter waits are normal
	)
	s, stop, stopped := &stalls{}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for last := time.Now(); ; {
			select {
			case <-stop:
				return
			case <-time.After(pause):
			}
			now := time.Now()
			if took := now.Sub(last) - pause; took > worthNoting {
				s.mu.Lock()
				s.list = append(s.list, stall{last, took})
				s.mu.Unlock()
			}
			last = now
		}
	}()
	t.Cleanup(func() { close(stop); <-stopped })
	return s
}

// late reports whether an answer was later than promised, without stalls.
func (s *stalls) late(a answer) bool { return s.exceeds(promised, a.sent, a.took) }

// exceeds reports whether something took longer than promised, without stalls.
func (s *stalls) exceeds(promise time.Duration, from time.Time, took time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	allowed, end := promise+busy, from.Add(took)
	for _, stall := range s.list {
		if stall.from.Before(end) && stall.from.Add(stall.took).After(from) {
			allowed += stall.took
		}
	}
	return took > allowed
}
