package chaos_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"novelgate/internal/blackbox"
)

// TestKilledUnderLoad kills the service with SIGKILL at any moment, again and again, and starts another one each time.
func TestKilledUnderLoad(t *testing.T) {
	database := startServer(t)
	current := serve(t, database.url())
	l := newLoad(t, newPartner(t, database.url()))
	l.aim(current)
	l.start(16)
	kills := size(10, 3)
	for range kills {
		_, before := l.ledger.count()
		enough := before + size(500, 200) + rand.IntN(300)
		blackbox.Eventually(t, 30*time.Second, "commands are acknowledged", func() bool {
			_, acknowledged := l.ledger.count()
			return acknowledged >= enough
		})
		current.kill()
		current = serve(t, database.url())
		l.aim(current)
	}
	time.Sleep(300 * time.Millisecond)
	l.stop()

	seen := l.ledger.reconcile(t, l.partner, current, database.url())
	count := wantSoundLog(t, database.url())
	current.metrics(t)
	if seen.unknown == 0 {
		t.Error("no kill met a command on its way: this test has shown nothing")
	}
	sent, _ := l.ledger.count()
	t.Logf("%d kills: %d commands sent, %d acknowledged, %d without an answer, of which %d are on record; %d events; answers %v",
		kills, sent, seen.acknowledged, seen.unknown, seen.unknownStored, count, l.ledger.statuses)
}
