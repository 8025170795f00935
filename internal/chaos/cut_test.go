package chaos_test

import (
	"testing"
	"time"

	"novelgate/internal/testsize"
)

// TestConnectionsAreCut ends all connections of the service, again and again, wherever their transactions are: many a commit
// succeeds and its answer is lost.
func TestConnectionsAreCut(t *testing.T) {
	database := startServer(t)
	service := serve(t, database.url())
	l, w := newLoad(t, newPartner(t, database.url())), &witness{stalls: watchStalls(t)}
	l.watch = w.see
	l.aim(service)
	began := time.Now()
	l.start(16)
	cuts := testsize.Of(60, 15)
	for range cuts {
		time.Sleep(50 * time.Millisecond)
		execute(t, database.url(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'novelgate%'`)
	}
	l.ledger.await(100)
	l.stop()
	wantPromptAnswers(t, w, began)
	seen := l.ledger.reconcile(t, l.partner, service, database.url())
	count := wantSoundLog(t, database.url())
	t.Logf("%d cuts: %d acknowledged, %d in the dark, of which %d are on record; %d events; answers %v",
		cuts, seen.acknowledged, seen.unknown, seen.unknownStored, count, l.ledger.statuses)
}

// TestWritersGetStuck stops the processes of the database that the service writes through, in the middle of their transactions,
// so that those keep their locks and hide what came after them from readers. The service can still connect.
func TestWritersGetStuck(t *testing.T) {
	database := startServer(t)
	service := serve(t, database.url())
	l, w := newLoad(t, newPartner(t, database.url())), &witness{stalls: watchStalls(t)}
	l.watch = w.see
	l.aim(service)
	began := time.Now()
	l.start(16)
	freezes := testsize.Of(3, 1)
	for range freezes {
		l.ledger.await(300)
		thaw := database.freezeWriters(t)
		time.Sleep(3 * time.Second)
		thaw()
	}
	l.ledger.await(100)
	l.stop()
	wantPromptAnswers(t, w, began)
	seen := l.ledger.reconcile(t, l.partner, service, database.url())
	count := wantSoundLog(t, database.url())
	t.Logf("%d times stuck: %d acknowledged, %d in the dark, of which %d are on record; %d events; answers %v",
		freezes, seen.acknowledged, seen.unknown, seen.unknownStored, count, l.ledger.statuses)
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
