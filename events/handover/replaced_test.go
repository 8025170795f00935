package handover_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/handover"
	"novelgate/events/ledger/ledgertest"
)

// TestLostFrom: a log that was set back before the promotion, and went on, has lost all that it has accepted since,
// whether it is shorter or longer than the promoted one, and whatever the service has signed since then.
func TestLostFrom(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	first := p.Latest().Tree
	p.Append(300)
	old := p.Backup()
	kept := p.Latest().Tree.N
	p.Append(8)
	at := p.Latest().Tree
	promote := func(at tlog.Tree) {
		p.promoted.Store(&[]handover.Promotion{{ID: uuid.New(), Entries: at.N, Root: at.Hash, PromotedAt: time.Now()}})
	}
	promote(at)
	p.Append(5) // as the promoted service
	want := func(what string) {
		t.Helper()
		got, err := handover.LostFrom(t.Context(), old.Pool, p.server.Client(), p.server.URL)
		if err != nil || got != kept {
			t.Errorf("%s: lost from log index %d on, want %d: %v", what, got, kept, err)
		}
	}
	want("nothing is lost")
	old.Forget() // or it would not sign again
	old.Tamper(`DELETE FROM ledger_checkpoints`)
	old.Append(3)
	want("a shorter log")
	old.Append(20)
	want("a longer log")
	promote(first)
	want("a log that differs after the promotion")
	promote(at)
	p.late.Store(true)
	want("the newest checkpoint is older than the promotion")
	p.late.Store(false)
	p.SignAs(ledgertest.Origin + "/2")
	want("nothing is signed since the promotion")
}
