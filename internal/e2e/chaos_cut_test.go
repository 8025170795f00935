package e2e_test

import (
	"context"
	"testing"
	"time"
)

// cutSQL makes a function that ends all connections of the service once one of them at least is in the middle of an
// append, and says how many of those there were.
const cutSQL = `CREATE FUNCTION pg_temp.cut() RETURNS int LANGUAGE plpgsql AS $$
DECLARE appends int := 0;
BEGIN
    WHILE appends = 0 LOOP
        PERFORM pg_stat_clear_snapshot();
        WITH service AS MATERIALIZED (
            SELECT pid, application_name = 'novelgate-append' AND backend_xid IS NOT NULL AS appending
                FROM pg_stat_activity WHERE application_name LIKE 'novelgate%'
        ), cut AS MATERIALIZED (
            SELECT s.appending, pg_terminate_backend(s.pid) FROM service AS s
                WHERE (SELECT bool_or(t.appending) FROM service AS t)
        )
        SELECT count(*) FILTER (WHERE appending) INTO appends FROM cut;
    END LOOP;
    RETURN appends;
END $$`

// TestConnectionsAreCut ends all connections of the service, again and again, wherever their transactions are: many a
// commit succeeds and its answer is lost.
func TestConnectionsAreCut(t *testing.T) {
	began := time.Now()
	database, service, l, w := underLoad(t, 0)
	connection := connect(t, database.url())
	defer func() { _ = connection.Close(context.Background()) }()
	if _, err := connection.Exec(t.Context(), cutSQL); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const cuts = 3
	appends := 0 // that a cut has met
	for range cuts {
		l.book.await(3)
		var met int
		if err := connection.QueryRow(ctx, `SELECT pg_temp.cut()`).Scan(&met); err != nil {
			t.Fatal(err)
		}
		appends += met
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
