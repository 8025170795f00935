package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// TestDatabaseIsAway takes PostgreSQL away under load: it stops immediately and is started again after a while; or all
// its processes are suspended, so that connections stay open, new ones are accepted, but nothing is answered. Meanwhile
// each request is answered in time, with 503; afterwards all recovers by itself.
func TestDatabaseIsAway(t *testing.T) {
	for name, c := range map[string]struct {
		silent bool
		strike func(t *testing.T, s *server) (heal func())
	}{
		"crashed": {false, func(t *testing.T, s *server) func() {
			t.Helper()
			s.crash(t)
			return func() { s.start(t) }
		}},
		"silent": {true, func(t *testing.T, s *server) func() {
			t.Helper()
			return s.freeze(t)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			database, service, l, w := underLoad(t, 20*time.Millisecond)
			l.await(100)
			struck := time.Now()
			heal := c.strike(t, database)
			away := time.Now()
			testdb.Eventually(t, "requests are refused while the database is away",
				func() bool { return len(w.between(away, time.Now())) >= 16 })
			wantDegraded(t, service, w, c.silent)
			back := time.Now()
			meanwhile := w.between(away, back)
			heal()
			acknowledged := func() (first, lastRefusal time.Duration, n int) {
				for _, a := range w.between(back, time.Now()) {
					if !a.succeeded() {
						lastRefusal = max(lastRefusal, a.sent.Sub(back))
					} else if n++; n == 1 {
						first = a.sent.Add(a.took).Sub(back)
					}
				}
				return first, lastRefusal, n
			}
			testdb.Eventually(t, "commands succeed again", func() bool {
				_, _, n := acknowledged()
				return n >= 200
			})
			for _, a := range meanwhile {
				if !a.unavailable() {
					t.Fatalf("a request is answered with %d after %v, want 503 unavailable with Retry-After (%v)\n%s", a.Status,
						a.took, a.err, a.Body)
				}
			}
			var slowest answer
			since := away // a crash cuts requests off
			if c.silent {
				since = struck
			}
			for _, a := range w.between(since, time.Now()) {
				if a.took > slowest.took {
					slowest = a
				}
				if w.late(a.sent, a.took) {
					t.Errorf("a request was answered with %d after %v, the promise is %v", a.Status, a.took, promised)
				}
			}
			first, last, _ := acknowledged()
			t.Logf("away for %v: %d requests refused; the slowest answer was a %d after %v; first success %v after the return, "+
				"last refusal %v", back.Sub(away), len(meanwhile), slowest.Status, slowest.took, first, last)
			l.settle(service, database.url())
		})
	}
}

// TestOutageIsAFewLines: while the database is away under load, the log has the first failure, that more are counted,
// and the end, in whose place there were hundreds of lines.
func TestOutageIsAFewLines(t *testing.T) {
	t.Parallel()
	database := startServer(t, nil)
	service := serve(t, database.url(), "--log-level", "info")
	l, w := newLoad(t, newPartner(t, database.url()), service), &witness{stalls: watchStalls(t)}
	l.watch, l.pause = w.see, 20*time.Millisecond
	l.start(16)
	l.await(100)
	before := len(service.stderr.String())
	database.crash(t)
	away := time.Now()
	testdb.Eventually(t, "requests are refused while the database is away",
		func() bool { return len(w.between(away, time.Now())) >= 160 })
	database.start(t)
	var said string
	testdb.Eventually(t, "the log says that the outage has ended", func() bool {
		said = service.stderr.String()[before:]
		return strings.Contains(said, `msg="available again"`)
	})
	l.stop()
	if n := strings.Count(said, "\n"); n > 4 || !strings.Contains(said, `msg="unavailable: from now on`) {
		t.Errorf("an outage of %v is %d lines:\n%s", time.Since(away), n, said)
	}
}

// wantDegraded checks routes that do not need the database, those that report the outage, and that a reader gets 503 in
// time, too.
func wantDegraded(t *testing.T, service *Service, w *witness, silent bool) {
	t.Helper()
	sent := time.Now()
	service.Send(t, Request{Path: "/api/novels"}).WantProblem(t, 503, "unavailable")
	if took := time.Since(sent); w.late(sent, took) {
		t.Errorf("a reader was answered after %v, the promise is %v", took, promised)
	}
	service.Send(t, Request{Path: "/nowhere"}).WantProblem(t, 404, "not_found")
	malformed := &caller{APIKey: "ngp_" + strings.Repeat("0", 36)} // needs no database
	service.Send(t, malformed.Request(PostsPath, "k", []byte(`{}`))).WantProblem(t, 401, "unauthorized")
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503} {
		if status, body := Get(t, service.OpsURL+path); status != want {
			t.Errorf("%s is %d while the database is away, want %d\n%s", path, status, want, body)
		}
	}
	if metrics := service.metrics(t); !silent && !strings.Contains(metrics, "novelgate_projections_up 0") {
		t.Error("/metrics does not say that the state of the projections is unknown")
	}
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
		return p.comment(t, service, "Title", fmt.Sprint("k-", sent))
	}
	if a := send(); !a.succeeded() {
		t.Fatalf("%d %s", a.Status, a.Body)
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
			t.Errorf("%s: a command is answered with %d (%v)\n%s", how, a.Status, a.err, a.Body)
		}
		if !strings.Contains(service.metrics(t), `novelgate_ready{pool="append"} 0`) {
			t.Errorf("%s: the metric does not say that commands cannot be carried out", how)
		}
		execute(t, database.url(), append([]string{`SET default_transaction_read_only = off`}, statements.off...)...)
		service.awaitReady(t)
		if a := send(); !a.succeeded() {
			t.Errorf("%s: after it was ready again, a command is answered with %d (%v)\n%s", how, a.Status, a.err, a.Body)
		}
		testdb.Eventually(t, how+": the metric says that commands can be carried out", func() bool {
			return strings.Contains(service.metrics(t), `novelgate_ready{pool="append"} 1`)
		})
	}
	if n := value[int](t, database.url(), `SELECT count(*) FROM events WHERE event_type = 'post.imported.v1'`); n != 3 {
		t.Errorf("%d comments in the log, want 3", n)
	}
}
