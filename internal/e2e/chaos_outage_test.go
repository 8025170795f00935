package e2e_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"novelgate/internal/testdb"
	"novelgate/projections"
)

// The service promises an answer within two seconds. A busy machine adds to what we measure: processes wait for their
// turn, ours and those that it asks. What hangs takes far longer.
const (
	promised = 2 * time.Second
	busy     = 1500 * time.Millisecond
)

// witness remembers every answer.
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

// between returns the answers to requests that were sent and answered in the meantime.
func (w *witness) between(from, to time.Time) []answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.answers), func(a answer) bool {
		return a.sent.Before(from) || a.sent.Add(a.took).After(to)
	})
}

// outage says how the service has taken one absence of the database.
type outage struct {
	refused       int           // requests answered with 503 meanwhile
	slowest       time.Duration // of them
	firstAfter    time.Duration // from the return of the database to the first success
	lastRefusal   time.Duration // … and to the sending of the last request that was refused
	projectedSoon time.Duration // … and until the projections stood at the end of the log
}

// wantRefusals wants each request during the absence refused in time, with 503.
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

// awaitRefusals waits until every connection of the load has met the absence of the database.
func awaitRefusals(t testing.TB, w *witness, away time.Time) {
	t.Helper()
	testdb.Eventually(t, "requests are refused while the database is away",
		func() bool { return len(w.between(away, time.Now())) >= 16 })
}

// measure waits until commands succeed again, and looks at how it came to that. back is when the database was there
// again.
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

// TestDatabaseCrashes stops PostgreSQL at once, under load, and starts it again after a while.
func TestDatabaseCrashes(t *testing.T) {
	database, service, l, w := underLoad(t, 20*time.Millisecond)
	l.book.await(100)
	database.crash(t)
	away := time.Now()
	wantDegraded(t, service)
	awaitRefusals(t, w, away)
	back := time.Now()
	database.start(t)
	started := time.Now()
	o := measure(t, w, away, back)
	recorded := readLog(t, database.url())
	testdb.Eventually(t, "the projections go on", func() bool {
		end := recorded[len(recorded)-1].Position
		return value[int](t, database.url(), `SELECT count(*) FROM projections WHERE (transaction_id, position) >= ($1, $2)`,
			end.TransactionID, end.Ordinal) == len(projections.All())
	})
	o.projectedSoon = time.Since(started)
	t.Logf("away for %v, recovery of PostgreSQL took %v: %d requests refused, the slowest after %v; first success %v "+
		"after the return, last refusal %v, projections %v",
		back.Sub(away), started.Sub(back), o.refused, o.slowest, o.firstAfter, o.lastRefusal, o.projectedSoon)
	l.settle(t, service, database.url())
}

// wantDegraded looks at what does not need the database, and at what says that it is away.
func wantDegraded(t *testing.T, service *Service) {
	t.Helper()
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503} {
		if status, body := Get(t, service.OpsURL+path); status != want {
			t.Errorf("%s is %d while the database is away, want %d\n%s", path, status, want, body)
		}
	}
	service.Send(t, Request{Method: http.MethodGet, Path: "/nowhere"}).WantProblem(t, 404, "not_found")
	unavailable := service.Send(t,
		(&Partner{NewIntegration: NewIntegration{APIKey: "ngp_" + strings.Repeat("0", 36)}}).Request(
			PostsPath, "k", []byte(`{}`)))
	unavailable.WantProblem(t, 401, "unauthorized") // malformed: no need to ask
	if metrics := service.metrics(t); !strings.Contains(metrics, "novelgate_projections_up 0") {
		t.Error("/metrics does not say that the state of the projections is unknown")
	}
}

// TestDatabaseGoesSilent stops all processes of PostgreSQL for a while: connections stay open and new ones are taken,
// but there are no answers.
func TestDatabaseGoesSilent(t *testing.T) {
	database, service, l, w := underLoad(t, 20*time.Millisecond)
	l.book.await(100)
	before := time.Now()
	thaw := database.freeze(t)
	away := time.Now()
	awaitRefusals(t, w, away)
	back := time.Now()
	thaw()
	o := measure(t, w, away, back)
	wantPromptAnswers(t, w, before)
	t.Logf("silent for %v: %d requests refused, the slowest after %v; first success %v after the return, last refusal %v",
		back.Sub(away), o.refused, o.slowest, o.firstAfter, o.lastRefusal)
	l.settle(t, service, database.url())
}
