package committer_test

import (
	"errors"
	"strconv"
	"testing"

	"novelgate/aggregates/post"
	"novelgate/internal/testdb"
)

func (r *replica) misjudged() int { return r.counter("novelgate_committer_misjudged_total") }

// TestRetryAmongFirstDeliveries: a batch that holds one is read again, once, and nobody notices.
func TestRetryAmongFirstDeliveries(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	r := newReplica(t, url, oneLane)
	p := newPartner()
	send := func(key, want string, misjudged int) {
		t.Helper()
		if a := r.submit(t.Context(), p.post(key, "Title")); a.String() != want {
			t.Errorf("%s: %v", key, a)
		}
		if n := r.misjudged(); n != misjudged {
			t.Errorf("%s: %d misjudged batches, want %d", key, n, misjudged)
		}
	}
	send("a", "post", 0)
	send("b", "post", 0)
	send("a", "post replayed", 1)
	// Retries come in bursts: now keys are looked up.
	send("b", "post replayed", 1)
	for i := range 64 {
		send(strconv.Itoa(i), "post", 1)
	}
	send("a", "post replayed", 2)
	if n := r.conflicts(); n != 0 {
		t.Errorf("%d conflicts", n)
	}
	checkTruth(t, direct(t, url))
}

// TestRefusalIsLookedUp: a command that would be refused today may be on record.
func TestRefusalIsLookedUp(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	p := newPartner()
	if a := newReplica(t, url, oneLane).submit(t.Context(), p.post("a", "Title")); a.err != nil {
		t.Fatal(a)
	}
	if _, err := newStaff(direct(t, url)).RejectNovel(t.Context(), "Title", "no"); err != nil {
		t.Fatal(err)
	}
	r := newReplica(t, url, oneLane)
	if a := r.submit(t.Context(), p.post("a", "Title")); a.String() != "post replayed" {
		t.Errorf("on record: %v", a)
	}
	if a := r.submit(t.Context(), p.post("b", "Title")); !errors.Is(a.err, post.ErrNovelNotFound) {
		t.Errorf("not on record: %v", a)
	}
	if n := r.misjudged(); n != 1 {
		t.Errorf("%d misjudged batches", n)
	}
}
