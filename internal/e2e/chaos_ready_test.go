package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// TestCommandsComeFirst: on a server with few connections no command is refused for lack of one, whatever the
// background does, and it stays so when the server has lost all of them.
func TestCommandsComeFirst(t *testing.T) {
	database := startEmptyServer(t, map[string]string{"max_connections": "10"})
	execute(t, database.url(), `CREATE ROLE plain LOGIN`, `ALTER DATABASE novelgate OWNER TO plain`)
	plain := inDatabase(t, database.url(), "novelgate", "plain") // superusers have three more, by which this looks on
	l := newLoad(t, newPartner(t, migrated(t, plain)))
	w := &witness{stalls: watchStalls(t)}
	l.watch = w.see
	service := serve(t, plain, "--lanes", "2")
	l.aim(service)
	l.start(8)
	l.book.await(200)
	if status, body := Get(t, service.OpsURL+"/readyz"); status != 200 {
		t.Errorf("/readyz: %d %s", status, body)
	}
	// Somebody reads at the same time, who needs connections, too.
	for range 30 {
		Get(t, service.URL+"/novels")
	}
	l.book.await(200)
	for _, a := range w.between(time.Time{}, time.Now()) {
		if !a.succeeded() {
			t.Fatalf("a command was answered with %d (%v)\n%s", a.status, a.err, a.body)
		}
	}
	database.crash(t)
	away := time.Now()
	awaitRefusals(t, w, away)
	back := time.Now()
	database.start(t)
	measure(t, w, away, back)
	testdb.Eventually(t, "/readyz is 200 again", func() bool {
		status, _ := Get(t, service.OpsURL+"/readyz")
		return status == 200
	})
	settled := time.Now()
	l.book.await(400)
	for _, a := range w.between(settled, time.Now()) {
		if !a.succeeded() {
			t.Errorf("once the service is ready again, a command was answered with %d (%v)\n%s", a.status, a.err, a.body)
			break
		}
	}
	l.stop()
	l.book.reconcile(t, l.Partner, service, database.url())
}

// migrated brings a database to the newest schema.
func migrated(t *testing.T, databaseURL string) string {
	t.Helper()
	if out := RunCLI(t, databaseURL, "migrate"); out.Code != 0 {
		t.Fatalf("migrate: %s", out.Stderr)
	}
	return databaseURL
}

// TestReadinessSaysWhatCommandsMeet makes a primary read-only while the service runs on it, in two ways, and writable
// again: commands are refused with 503, /readyz and the metric say so and why, and all of it mends by itself.
func TestReadinessSaysWhatCommandsMeet(t *testing.T) {
	t.Parallel()
	database := startServer(t, nil)
	service := serve(t, database.url())
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
				strings.Contains(body, `"limits"`)
		})
		if a := send(); !a.unavailable() {
			t.Errorf("%s: a command is answered with %d (%v)\n%s", how, a.status, a.err, a.body)
		}
		if metrics := service.metrics(t); !strings.Contains(metrics, `novelgate_ready{pool="append"} 0`) {
			t.Errorf("%s: the metric does not say that commands cannot be carried out", how)
		}
		execute(t, database.url(), append([]string{`SET default_transaction_read_only = off`}, statements.off...)...)
		testdb.Eventually(t, how+": /readyz is 200 again", func() bool {
			status, _ := Get(t, service.OpsURL+"/readyz")
			return status == 200
		})
		if a := send(); !a.succeeded() {
			t.Errorf("%s: after it was ready again, a command is answered with %d (%v)\n%s", how, a.status, a.err, a.body)
		}
		if metrics := service.metrics(t); !strings.Contains(metrics, `novelgate_ready{pool="append"} 1`) {
			t.Errorf("%s: the metric does not say that commands can be carried out", how)
		}
	}
	wantComments(t, database.url(), 3)
}

// wantComments wants so many comments in the log, and projected.
func wantComments(t *testing.T, databaseURL string, comments int) {
	t.Helper()
	testdb.Eventually(t, "the comments are projected", func() bool {
		return value[int](t, databaseURL, `SELECT count(*) FROM posts`) == comments
	})
	if n := value[int](t, databaseURL, `SELECT count(*) FROM events WHERE event_type = 'post.imported.v1'`); n != comments {
		t.Errorf("%d comments in the log, want %d", n, comments)
	}
}
