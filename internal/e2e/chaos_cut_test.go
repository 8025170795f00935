package e2e_test

import (
	"context"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// cutSQL ends all connections of the service once one of them at least is in the middle of an append, and says how many
// of those there are.
const cutSQL = `WITH service AS MATERIALIZED (
	SELECT pid, application_name = 'novelgate-append' AND backend_xid IS NOT NULL AS appending FROM pg_stat_activity
	    WHERE application_name LIKE 'novelgate%'
), cut AS MATERIALIZED (
	SELECT s.appending, pg_terminate_backend(s.pid) FROM service AS s WHERE (SELECT bool_or(t.appending) FROM service AS t)
)
SELECT count(*) FILTER (WHERE appending) FROM cut`

// TestConnectionsAreCut ends all connections of the service, again and again, wherever their transactions are: many a
// commit succeeds and its answer is lost.
func TestConnectionsAreCut(t *testing.T) {
	began := time.Now()
	database, service, l, w := underLoad(t, 0)
	connection := connect(t, database.url())
	defer func() { _ = connection.Close(context.Background()) }()
	cuts, appends := 0, 0 // appends that a cut has met
	for ; cuts < 3; cuts++ {
		l.book.await(3)
		testdb.Eventually(t, "a cut meets an append", func() bool {
			var met int
			if err := connection.QueryRow(t.Context(), cutSQL).Scan(&met); err != nil {
				t.Fatal(err)
			}
			appends += met
			return met > 0
		})
	}
	l.book.await(100)
	l.settle(t, service, database.url())
	wantPromptAnswers(t, w, began)
	t.Logf("%d cuts, of %d appends", cuts, appends)
}

// TestWritersGetStuck stops the processes of the database that the service writes through, in the middle of their
// transactions, so that those keep their locks and hide what came after them from readers. The service can still
// connect.
func TestWritersGetStuck(t *testing.T) {
	began := time.Now()
	database, service, l, w := underLoad(t, 0)
	l.book.await(200)
	thaw := database.freezeWriters(t)
	awaitRefusals(t, w, time.Now())
	thaw()
	l.book.await(100)
	l.settle(t, service, database.url())
	wantPromptAnswers(t, w, began)
}

// wantPromptAnswers wants an answer to every request within the time promised.
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
