package committer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/aggregates/author"
	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/commands/committer"
	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

func (r *replica) outdated() int { return r.counter("novelgate_committer_outdated_total") }

// familiar creates novels and comments on them until the one lane of a replica remembers them.
func familiar(t *testing.T, r *replica, p partner, titles ...string) {
	t.Helper()
	for _, spelling := range titles {
		if a := r.submit(t.Context(), p.novel("create "+spelling, spelling, novel.Fields{})); a.err != nil {
			t.Fatal(a)
		}
	}
	// It trusts a title only when no transaction that began before its latest event is open, on any database of the
	// server.
	settledLog(t, direct(t, r.url))
	for range 3 {
		for _, spelling := range titles {
			if a := r.submit(t.Context(), p.post(uuid.NewString(), spelling)); a.String() != "post" {
				t.Fatal(a)
			}
		}
	}
}

// TestMemoryHearsOfDecisions: what staff decide holds from the next comment on, on titles and authors that a lane knows
// well.
func TestMemoryHearsOfDecisions(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	r := newReplica(t, url, oneLane, committer.NeverDoubt)
	p := newPartner()
	familiar(t, r, p, "Title", "Other")
	moderators := newStaff(direct(t, url))
	send := func(cmd *committer.ImportPost, want error, outdated int) {
		t.Helper()
		if a := r.submit(t.Context(), cmd); !errors.Is(a.err, want) {
			t.Errorf("%v, want %v", a, want)
		}
		if n := r.outdated(); n != outdated {
			t.Errorf("%d outdated batches, want %d", n, outdated)
		}
	}
	take := func(step moderation) {
		t.Helper()
		if err := step(moderators); err != nil {
			t.Fatal(err)
		}
	}
	send(p.post("1", "Title"), nil, 0)
	take(reject("Title"))
	send(p.post("2", "Other"), nil, 0)
	send(p.post("3", "Title"), post.ErrNovelNotFound, 0) // it heard of that with the comment before
	take(approve("Title"))
	send(p.post("4", "Title"), nil, 0)

	take(reject("Other"))
	send(p.post("5", "Other"), post.ErrNovelNotFound, 1)

	familiar(t, r, p, "Third")
	block(t, url, p, "troll")
	send(p.postBy("troll", "6", "Third"), author.ErrBlocked, 2)
	send(p.post("7", "Third"), nil, 2)
	send(p.postBy("troll", "8", "Third"), author.ErrBlocked, 2) // known by now: that is looked at first
	checkTruth(t, direct(t, url))
}

// TestMemoryHearsOfLateCommits: a decision counts when it is committed, however old its transaction is.
func TestMemoryHearsOfLateCommits(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	pool := direct(t, url)
	r := newReplica(t, url, oneLane)
	p := newPartner()
	familiar(t, r, p, "Title", "Other")
	tx := begin(t, pool)
	record(t, tx, events.Recorded{
		StreamType: events.NovelStream, StreamID: events.NovelID("title"), StreamVersion: 2, ID: "late",
		Source: "staff/tests",
		Event:  events.NovelRejected{Reason: "late"},
	})
	for i := range 20 {
		spelling := []string{"Title", "Other"}[i%2]
		if a := r.submit(t.Context(), p.post(fmt.Sprint("before ", i), spelling)); a.String() != "post" {
			t.Fatal(a)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := r.submit(t.Context(), p.post("after", "Title")); !errors.Is(a.err, post.ErrNovelNotFound) {
		t.Errorf("after the commit: %v", a)
	}
	if a := r.submit(t.Context(), p.post("other", "Other")); a.String() != "post" {
		t.Errorf("another title: %v", a)
	}
}

// TestMemoryOfManyChanges: more than a lane hears of one by one.
func TestMemoryOfManyChanges(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	r, other := newReplica(t, url, oneLane), newReplica(t, url, oneLane)
	p := newPartner()
	familiar(t, r, p, "Title", "Other")
	var creations []any
	for i := range 200 {
		creations = append(creations, p.novel(fmt.Sprint("n", i), fmt.Sprint("Novel ", i), novel.Fields{}))
	}
	other.together(t, creations...)
	if err := reject("Title")(newStaff(direct(t, url))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if a := r.submit(t.Context(), p.post(uuid.NewString(), "Title")); !errors.Is(a.err, post.ErrNovelNotFound) {
			t.Error(a)
		}
		if a := r.submit(t.Context(), p.post(uuid.NewString(), "Other")); a.String() != "post" {
			t.Error(a)
		}
	}
}

// TestMemoryWhileNothingSettles: an open transaction keeps a lane from trusting what has changed since. It reads that,
// and reads it once.
func TestMemoryWhileNothingSettles(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	pool := direct(t, url)
	counter := &trips{}
	r := newReplica(t, url, oneLane, func(c *committer.Config) { c.Pool = newPool(t, url, 1, counter) })
	p := newPartner()
	familiar(t, r, p, "Known")
	tx := begin(t, pool)
	execute(t, tx, `SELECT pg_current_xact_id()`)
	for _, cmd := range []any{p.novel("n", "New", novel.Fields{}), p.post("first", "New")} {
		if a := r.submit(t.Context(), cmd); a.err != nil {
			t.Fatal(a)
		}
	}
	for i := range 6 {
		for spelling, want := range map[string]int64{"Known": 1, "New": 2} {
			counter.n.Store(0)
			if a := r.submit(t.Context(), p.post(fmt.Sprint(spelling, i), spelling)); a.String() != "post" {
				t.Error(a)
			}
			if n := counter.n.Load(); n != want {
				t.Errorf("%s, comment %d: %d round trips, want %d", spelling, i, n, want)
			}
		}
	}
}

// TestMemoryEndsWithItsEpoch: without an event a lane does not look again; but when the table was exchanged or folded
// anew, it does.
func TestMemoryEndsWithItsEpoch(t *testing.T) {
	t.Parallel()
	const spoil = `UPDATE title_lookup SET state = 'rejected' WHERE folded_title = 'title'`
	for name, change := range map[string]string{
		"exchanged": `CREATE TABLE other (LIKE title_lookup INCLUDING ALL); INSERT INTO other SELECT * FROM title_lookup;
			DROP TABLE title_lookup; ALTER TABLE other RENAME TO title_lookup`,
		"folded anew": `UPDATE settings SET value = 'others' WHERE name = 'fold_table'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := testdb.New(t)
			pool := direct(t, url)
			execute(t, pool, `INSERT INTO settings (name, value) VALUES ('fold_table', 'ours') ON CONFLICT DO NOTHING`)
			r := newReplica(t, url, oneLane)
			p := newPartner()
			familiar(t, r, p, "Title")
			execute(t, pool, spoil)
			if a := r.submit(t.Context(), p.post("a", "Title")); a.String() != "post" {
				t.Fatalf("it does not remember: %v", a)
			}
			execute(t, pool, change)
			for range 2 {
				if a := r.submit(t.Context(), p.post(uuid.NewString(), "Title")); !errors.Is(a.err, post.ErrNovelNotFound) {
					t.Errorf("after that: %v", a)
				}
			}
		})
	}
}

// TestMemoryOfComments: a comment that a lane remembers is a parent in its own discussion only.
func TestMemoryOfComments(t *testing.T) {
	t.Parallel()
	r := newReplica(t, testdb.New(t), oneLane)
	p, q := newPartner(), newPartner()
	familiar(t, r, p, "Title", "Other")
	parent := r.submit(t.Context(), p.post("parent", "Title"))
	for _, tc := range []struct {
		cmd  *committer.ImportPost
		want string
	}{
		{p.reply("a", "Title", "parent"), "post threaded"},
		{p.reply("b", "Other", "parent"), "post"},
		{q.reply("c", "Title", "parent"), "post"},
		{p.reply("d", "Title", "a"), "post threaded"},
	} {
		a := r.submit(t.Context(), tc.cmd)
		if a.String() != tc.want {
			t.Errorf("%s: %v, want %s", tc.cmd.Key, a, tc.want)
		}
		if tc.cmd.Key == "a" && *a.post.ParentPostID != parent.post.PostID {
			t.Errorf("parent %s, want %s", a.post.ParentPostID, parent.post.PostID)
		}
	}
	// In one batch: a comment that comes before its reply is its parent, one that comes after it is not.
	got := texts(r.together(t, p.reply("e", "Title", "f"), p.post("f", "Title"), p.reply("g", "Title", "f")))
	if fmt.Sprint(got) != "[post post post threaded]" {
		t.Errorf("%q", got)
	}
}

// TestMemoryWhileTitlesAreRebuilt: new tables take over under comments that lanes decide from memory, and under others.
// Nobody is refused.
func TestMemoryWhileTitlesAreRebuilt(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	r := newReplica(t, url)
	p := newPartner()
	titles := []string{"One", "Two", "Three", "Four"}
	for _, spelling := range titles {
		if a := r.submit(t.Context(), p.novel("create "+spelling, spelling, novel.Fields{})); a.err != nil {
			t.Fatal(a)
		}
	}
	var writers sync.WaitGroup
	stop := make(chan struct{})
	for w := range 8 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				cmd := p.reply(fmt.Sprint(w, "-", i), titles[(w+i)%len(titles)], fmt.Sprint(w, "-", i-i%20))
				if a := r.submit(context.Background(), cmd); a.err != nil {
					t.Error(a)
				}
			}
		})
	}
	for range 4 {
		for _, projection := range projections.Inline() {
			if _, err := rebuild.Run(t.Context(),
				rebuild.Config{
					Pool: direct(t, url), Projection: projection, Inline: true,
					Logger: slog.New(slog.DiscardHandler),
				}); err != nil {
				t.Error(err)
			}
		}
	}
	close(stop)
	writers.Wait()
	t.Logf("%d events, %d batches outdated, %d conflicts", len(checkTruth(t, direct(t, url))), r.outdated(), r.conflicts())
	if r.outdated() == 0 {
		t.Error("no lane found its memory outdated")
	}
}

// TestUpsertAmongComments: an upsert is decided on the novel as it is, not on what a lane remembers for comments.
func TestUpsertAmongComments(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	r := newReplica(t, url, oneLane)
	p := newPartner()
	familiar(t, r, p, "Title")
	for _, key := range []string{"1", "2"} {
		answers := r.together(t, p.post("a"+key, "Title"), p.novel("n"+key, "Title", novel.Fields{Author: ptr("Somebody")}),
			p.post("b"+key, "Title"))
		if diff := cmp.Diff([]string{"post", "updated", "post"}, texts(answers)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	var updates []events.Event
	for _, recorded := range checkTruth(t, direct(t, url)) {
		if _, ok := recorded.Event.(events.NovelUpdated); ok {
			updates = append(updates, recorded.Event)
		}
	}
	if diff := cmp.Diff([]events.Event{events.NovelUpdated{Author: ptr("Somebody")}, events.NovelUpdated{}},
		updates); diff != "" {
		t.Errorf("updates (-want +got):\n%s", diff)
	}
	if n := r.conflicts(); n != 0 {
		t.Errorf("%d conflicts", n)
	}
}
