package handover_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/handover"
	"novelgate/events/ledger/ledgertest"
	"novelgate/internal/testdb"
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

// TestIgnorePromotion: a database that was replaced by mistake appends again, once the promoted service is off. That
// promotion does not replace it any more when the service returns, and another one does.
func TestIgnorePromotion(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.promoted.Store(&elsewhere)
	if err := handover.Fence(t.Context(), p.Ledger.Pool, elsewhere[0].ID, p.server.URL); err != nil {
		t.Fatal(err)
	}
	undo := func(wanted error, fence string) {
		t.Helper()
		if err := p.Undo(t.Context(), nil); !errors.Is(err, wanted) {
			t.Errorf("undone: %v, want %v", err, wanted)
		}
		if got := p.fences(t); got != fence {
			t.Errorf("afterwards: %s, want %s", got, fence)
		}
	}
	replaces := func(want bool) {
		t.Helper()
		found, err := handover.FindSuccessor(t.Context(), p.Ledger.Pool, p.server.Client(), p.server.URL)
		if err != nil || (found != nil) != want {
			t.Errorf("found %v, %v, want one: %t", found, err, want)
		}
	}
	replaces(true)
	p.away.Store(true)
	undo(handover.ErrReplaced, "replaced") // without the flag
	p.IgnorePromotion = true
	p.away.Store(false)
	undo(handover.ErrReplaced, "replaced") // while the service answers
	p.away.Store(true)
	undo(handover.ErrRefused, "replaced") // it answers with an error, so it runs
	moved := func(url string) {
		testdb.Exec(t, p.Ledger.Pool, `UPDATE handover SET successor_url = $1`, url)
	}
	closed := fmt.Sprint("http://127.0.0.1:", testdb.ReservePort(t))
	moved(p.publish(t)) // another service has its address
	undo(handover.ErrRefused, "replaced")
	moved("http://240.0.0.1:9") // no address of a host
	undo(handover.ErrRefused, "replaced")
	client := p.Client
	p.Client = &http.Client{Transport: &http.Transport{Proxy: func(*http.Request) (*url.URL, error) {
		return url.Parse(closed)
	}}}
	moved(p.server.URL)
	undo(handover.ErrRefused, "replaced") // a proxy that is off is not the service
	p.Client = client
	moved(closed)
	undo(nil, "none")
	if err := handover.Fence(t.Context(), p.Ledger.Pool, elsewhere[0].ID, p.server.URL); err != nil {
		t.Error(err)
	}
	p.Append(1)
	p.away.Store(false)
	replaces(false)
	next := elsewhere[0]
	next.ID = uuid.New()
	p.promoted.Store(&[]handover.Promotion{elsewhere[0], next})
	replaces(true)
	p.promoted.Store(nil)
	p.IgnorePromotion = false
	token, err := p.HandOver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.IgnorePromotion = true
	if err := p.Undo(t.Context(), token); !errors.Is(err, handover.ErrRefused) {
		t.Errorf("a handover is undone as a replacement: %v", err)
	}
}

// TestUnknownSuccessor: a service that was replaced by one whose address is not known is not assumed to be off.
func TestUnknownSuccessor(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	if err := handover.Fence(t.Context(), p.Ledger.Pool, uuid.New(), ""); err != nil {
		t.Fatal(err)
	}
	p.IgnorePromotion = true
	if err := p.Undo(t.Context(), nil); !errors.Is(err, handover.ErrRefused) {
		t.Errorf("undone: %v", err)
	}
	p.Force = true
	if err := p.Undo(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// TestFenceWhileOthersAsk: readers of what a service publishes do not prevent the fence of its database.
func TestFenceWhileOthersAsk(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	asking := testdb.Begin(t, p.Ledger.Pool)
	if _, err := handover.Publish(t.Context(), asking); err != nil {
		t.Fatal(err)
	}
	fenced := make(chan error, 1)
	go func() { fenced <- handover.Fence(t.Context(), p.Ledger.Pool, uuid.New(), p.server.URL) }()
	testdb.Eventually(t, "the fence waits", func() bool {
		return testdb.Must(handover.Publish(t.Context(), p.Ledger.Pool))(t).Changing
	})
	if err := asking.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-fenced; err != nil {
		t.Error(err)
	}
	if got := p.fences(t); got != "replaced" {
		t.Errorf("afterwards: %s", got)
	}
}

// TestFenceRefusesWrites of all that the successor continues, whoever writes: the service, or replication.
func TestFenceRefusesWrites(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	if err := handover.Fence(t.Context(), p.Ledger.Pool, uuid.New(), "https://successor.example"); err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"origin", "replica"} {
		for _, write := range []string{
			`INSERT INTO events DEFAULT VALUES`, `SELECT erase_author_events(gen_random_uuid(), 'u', '{}')`,
			`INSERT INTO imports DEFAULT VALUES`, `UPDATE imports SET lines = lines`,
			`INSERT INTO import_chunks DEFAULT VALUES`,
			`INSERT INTO webhooks DEFAULT VALUES`, `UPDATE webhooks SET url = url`, `DELETE FROM webhooks`,
		} {
			tx := testdb.Begin(t, p.Ledger.Pool)
			testdb.Exec(t, tx, `SET LOCAL session_replication_role = `+role)
			_, err := tx.Exec(t.Context(), write)
			if err == nil || !strings.Contains(err.Error(), "replaced by https://successor.example") {
				t.Errorf("%s as %s: %v", write, role, err)
			}
			_ = tx.Rollback(t.Context()) // a failure shows in the next one
		}
	}
}
