package committer_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/author"
	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/commands/committer"
	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// cached creates novels with comments until the lane of a replica has them in its cache.
func cached(t *testing.T, r *replica, p partner, titles ...string) {
	t.Helper()
	for _, spelling := range titles {
		r.must(t, p.novel("create "+spelling, spelling, novel.Fields{}))
	}
	// A title is cached when no transaction that began before its latest event is open, on any database of the
	// server.
	readLog(t, testdb.Pool(t, r.url))
	for range 3 {
		for _, spelling := range titles {
			r.want(t, "post", p.post(uuid.NewString(), spelling))
		}
	}
}

// newCountingPool returns a pool that counts its round trips.
func newCountingPool(t *testing.T, url string) (*pgxpool.Pool, *atomic.Int64) {
	t.Helper()
	trips := &atomic.Int64{}
	return newPool(t, url, 1, func(c *pgxpool.Config) {
		c.ConnConfig.Tracer = &tracer{func(*pgx.Conn, ...string) { trips.Add(1) }}
	}), trips
}

// TestRetriesOnTheFastPath: a batch of comments on cached titles with retries is read and decided again, and all
// commands succeed.
func TestRetriesOnTheFastPath(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	cached(t, r, p, "Title", "Other")
	r.want(t, "post", p.post("a", "Title"))
	got := r.together(t, p.post("b", "Title"), p.post("a", "Title"), p.post("b", "Title"), p.reply("c", "Other", "b"))
	if diff := cmp.Diff([]string{"post", "post replayed", "post replayed", "post"}, texts(got)); diff != "" {
		t.Errorf("one batch (-want +got):\n%s", diff)
	}
	r.want(t, "post replayed", p.post("a", "Title"))
	r.want(t, "post replayed mismatch", p.post("a", "Other"))
	// Retries come in bursts, so the batches after one read the keys.
	if n := r.counter("novelgate_committer_duplicate_keys_total"); n != 1 {
		t.Errorf("%d batches met a duplicate key", n)
	}
	for i := range 64 {
		r.want(t, "post", p.post(fmt.Sprint("after ", i), "Title"))
	}
	r.want(t, "post replayed", p.post("a", "Title"))
	if n := r.counter("novelgate_committer_duplicate_keys_total"); n != 2 {
		t.Errorf("%d batches met a duplicate key after the burst", n)
	}
	// A retry needs nothing that the original needed: no parent (a newer replica has imported it in an unknown form), no
	// open title, no permit.
	r.want(t, "post", p.reply("orphan", "Title", "later"))
	testdb.Exec(t, r.db, `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, integration_id, event_source, event_type, data, batch_id)
		VALUES ((SELECT coalesce(max(log_index) + 1, 0) FROM events), 'post', $2, 1, 'later', $1, 'posts', 'post.imported.v9', '{"novelId":"n-1"}', gen_random_uuid())`, p.IntegrationID, events.PostID(p.IntegrationID, "later"))
	r.want(t, "post replayed", p.reply("orphan", "Title", "later"))
	testdb.Exec(t, r.db, `ALTER TABLE events ADD CONSTRAINT refused CHECK (event_id <> 'b') NOT VALID`)
	r.want(t, "post replayed", p.post("b", "Title"))
	before := r.permits.calls
	r.want(t, "post replayed mismatch", p.post("b", "Unknown title"))
	if r.permits.calls != before {
		t.Error("the limiter was asked for a retry")
	}
	// A comment that would now be refused may be on record.
	if err := reject("Title")(newStaff(r.db)); err != nil {
		t.Fatal(err)
	}
	r.want(t, "post replayed", p.post("a", "Title"))
	r.want(t, notFound, p.post("new", "Title"))
	if n := r.conflicts(); n != 0 {
		t.Errorf("%d conflicts", n)
	}
}

// TestDecisionsHoldAtOnce: decisions of staff affect the next comment, also on cached titles.
func TestDecisionsHoldAtOnce(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	cached(t, r, p, "Title", "Other", "Third")
	moderators := newStaff(r.db)
	take := func(step moderation) {
		t.Helper()
		if err := step(moderators); err != nil {
			t.Fatal(err)
		}
	}
	r.want(t, nil, p.post("1", "Title"))
	take(reject("Title"))
	r.want(t, nil, p.post("2", "Other"))
	r.want(t, post.ErrNovelNotFound, p.post("3", "Title"))
	take(approve("Title"))
	r.want(t, nil, p.post("4", "Title"))
	take(reject("Other"))
	r.want(t, post.ErrNovelNotFound, p.post("5", "Other"))
	block(t, r.db, p, "troll")
	for i := range 2 {
		r.want(t, author.ErrBlocked, p.postBy("troll", fmt.Sprint("troll ", i), "Third"))
		r.want(t, nil, p.post(fmt.Sprint("reader ", i), "Third"))
	}
	if n := r.counter("novelgate_committer_stale_caches_total"); n == 0 {
		t.Error("no batch met a stale cache")
	}
	checkTruth(t, r.db)
}

// TestLateCommitsAreNoticed: a decision counts from its commit, however old its transaction is.
func TestLateCommitsAreNoticed(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	cached(t, r, p, "Title", "Other")
	tx := begin(t, r.db)
	record(t, tx, events.Recorded{
		StreamType: events.NovelStream, StreamID: events.NovelID("title"), StreamVersion: 2, ID: "late",
		Source: "staff/tests",
		Event:  events.NovelRejected{Reason: "late"},
	})
	for i := range 20 {
		spelling := []string{"Title", "Other"}[i%2]
		r.want(t, "post", p.post(fmt.Sprint("before ", i), spelling))
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.want(t, post.ErrNovelNotFound, p.post("after", "Title"))
	r.want(t, "post", p.post("other", "Other"))
}

// TestManyChangesAreNoticed: more titles change than a check lists.
func TestManyChangesAreNoticed(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	r, other := newReplica(t, url), newReplica(t, url)
	p := newPartner()
	cached(t, r, p, "Title", "Other")
	var creations batch
	for i := range 200 {
		creations = append(creations, p.novel(fmt.Sprint("n", i), fmt.Sprint("Novel ", i), novel.Fields{}))
	}
	other.together(t, creations...)
	if err := reject("Title")(newStaff(testdb.Pool(t, url))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.want(t, post.ErrNovelNotFound, p.post(uuid.NewString(), "Title"))
		r.want(t, "post", p.post(uuid.NewString(), "Other"))
	}
}

// TestCacheWhileNothingSettles: while a transaction is open, titles that have changed since are not cached. Their
// comments take the plain path at once.
func TestCacheWhileNothingSettles(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	pool, trips := newCountingPool(t, url)
	r, p := newReplica(t, url, func(c *committer.Config) { c.Pool = pool }), newPartner()
	cached(t, r, p, "Known")
	testdb.Exec(t, begin(t, r.db), `SELECT pg_current_xact_id()`)
	for _, cmd := range (batch{p.novel("n", "New", novel.Fields{}), p.post("first", "New")}) {
		r.must(t, cmd)
	}
	for i := range 6 {
		for spelling, want := range map[string]int64{"Known": 1, "New": 2} {
			trips.Store(0)
			r.want(t, "post", p.post(fmt.Sprint(spelling, i), spelling))
			if n := trips.Load(); n != want {
				t.Errorf("%s, comment %d: %d round trips, want %d", spelling, i, n, want)
			}
		}
	}
}

// TestCacheEndsWithTheTable: without an event, only exchanging or refolding the table clears the cache.
func TestCacheEndsWithTheTable(t *testing.T) {
	t.Parallel()
	const spoil = `UPDATE title_lookup SET state = 'rejected' WHERE folded_title = 'title'`
	for name, change := range map[string]string{
		"exchanged": `CREATE TABLE other (LIKE title_lookup INCLUDING ALL); INSERT INTO other SELECT * FROM title_lookup;
			DROP TABLE title_lookup; ALTER TABLE other RENAME TO title_lookup`,
		"folded again": `UPDATE settings SET value = 'others' WHERE name = 'fold_table'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, p := setup(t)
			testdb.Exec(t, r.db, `INSERT INTO settings (name, value) VALUES ('fold_table', 'ours') ON CONFLICT DO NOTHING`)
			cached(t, r, p, "Title")
			testdb.Exec(t, r.db, spoil)
			r.want(t, "post", p.post("a", "Title"))
			testdb.Exec(t, r.db, change)
			for range 2 {
				r.want(t, post.ErrNovelNotFound, p.post(uuid.NewString(), "Title"))
			}
		})
	}
}

// TestParentsOnTheFastPath: a cached comment is a parent only in its own discussion.
func TestParentsOnTheFastPath(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	q := newPartner()
	cached(t, r, p, "Title", "Other")
	parent := r.submit(t.Context(), p.post("parent", "Title"))
	for _, tc := range []struct {
		cmd  *committer.Command
		want string
	}{
		{p.reply("a", "Title", "parent"), "post threaded"},
		{p.reply("b", "Other", "parent"), "post"},
		{q.reply("c", "Title", "parent"), "post"},
		{p.reply("d", "Title", "a"), "post threaded"},
	} {
		a := r.want(t, tc.want, tc.cmd)
		if tc.cmd.Key == "a" && *a.ParentPostID != parent.PostID {
			t.Errorf("parent %s, want %s", a.ParentPostID, parent.PostID)
		}
	}
	// In one batch: a comment that comes before its reply is its parent, one that comes after it is not.
	got := texts(r.together(t, p.reply("e", "Title", "f"), p.post("f", "Title"), p.reply("g", "Title", "f")))
	if fmt.Sprint(got) != "[post post post threaded]" {
		t.Errorf("%q", got)
	}
}

// TestTablesAreExchangedUnderComments: a rebuild exchanges tables during comments on both paths. No comment is refused.
func TestTablesAreExchangedUnderComments(t *testing.T) {
	t.Parallel()
	r, p := setup(t, lanes(2))
	titles := []string{"One", "Two", "Three", "Four"}
	cached(t, r, p, titles...)
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
	stale := func() int { return r.counter("novelgate_committer_stale_caches_total") }
	// A batch during the exchange waits for its lock and takes the plain path, without a stale cache.
	for round := 0; round < 4 || stale() == 0 && round < 40; round++ {
		for _, projection := range projections.Inline() {
			if _, err := rebuild.Run(t.Context(), rebuild.Config{
				Pool: r.db, Projection: projection, Logger: slog.New(slog.DiscardHandler),
			}); err != nil {
				t.Error(err)
			}
		}
	}
	close(stop)
	writers.Wait()
	t.Logf("%d events, %d stale caches, %d conflicts", len(checkTruth(t, r.db)), stale(), r.conflicts())
	if stale() == 0 {
		t.Error("no batch met a stale cache")
	}
}

// TestUpsertAmongComments: an upsert is decided on the stored novel, not on the cache for comments.
func TestUpsertAmongComments(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	cached(t, r, p, "Title")
	for _, key := range []string{"1", "2"} {
		answers := r.together(t, p.post("a"+key, "Title"), p.novel("n"+key, "Title", novel.Fields{Author: new("Murasaki")}),
			p.post("b"+key, "Title"))
		if diff := cmp.Diff([]string{"post", "updated", "post"}, texts(answers)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	var updates []events.Event
	for _, recorded := range checkTruth(t, r.db) {
		if _, ok := recorded.Event.(events.NovelUpdated); ok {
			updates = append(updates, recorded.Event)
		}
	}
	if diff := cmp.Diff([]events.Event{events.NovelUpdated{Author: new("Murasaki")}, events.NovelUpdated{}},
		updates); diff != "" {
		t.Errorf("updates (-want +got):\n%s", diff)
	}
}
