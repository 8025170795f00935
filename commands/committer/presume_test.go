package committer_test

import (
	"errors"
	"strconv"
	"testing"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/events"
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
	if a := r.submit(t.Context(), p.novel("n", "Title", novel.Fields{})); a.err != nil {
		t.Fatal(a)
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

// TestRetryThatWouldFail: what a retry would need, were it carried out again, is nobody's affair.
func TestRetryThatWouldFail(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	pool := direct(t, url)
	p := newPartner()
	first := newReplica(t, url, oneLane)
	for _, cmd := range []any{p.post("retry", "Title"), p.reply("orphan", "Title", "later")} {
		if a := first.submit(t.Context(), cmd); a.err != nil {
			t.Fatal(a)
		}
	}
	// A newer replica imports the parent, in a form that this one does not know.
	execute(t, pool, `INSERT INTO events (position, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, metadata)
		VALUES (0, 'post', gen_random_uuid(), 1, 'later', $1, 'post.imported.v9', '{}', '{}')`, events.PostsSource(p.IntegrationID))
	if a := newReplica(t, url, oneLane).submit(t.Context(),
		p.reply("orphan", "Title", "later")); a.String() != "post replayed" {
		t.Errorf("its parent cannot be decoded: %v", a)
	}
	execute(t, pool, `ALTER TABLE events ADD CONSTRAINT refused CHECK (event_id <> 'retry') NOT VALID`)
	if a := newReplica(t, url, oneLane).submit(t.Context(), p.post("retry", "Title")); a.String() != "post replayed" {
		t.Errorf("it cannot be stored: %v", a)
	}
}

// TestRetryAsksNoLimiter: a comment that was delivered before creates nothing, also under a title that is unknown.
func TestRetryAsksNoLimiter(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	p := newPartner()
	if a := newReplica(t, url, oneLane).submit(t.Context(), p.post("a", "Title")); a.err != nil {
		t.Fatal(a)
	}
	r := newReplica(t, url, oneLane)
	if a := r.submit(t.Context(), p.post("a", "Unknown title")); a.String() != "post replayed mismatch" {
		t.Errorf("answer: %v", a)
	}
	if r.permits.calls != 0 {
		t.Errorf("the limiter was asked %d times", r.permits.calls)
	}
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
