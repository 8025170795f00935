package committer_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// setupCounting returns a replica that counts its round trips, which knows the novel "Title".
func setupCounting(t *testing.T) (r *replica, p partner, trips func(want int64, wants any, cmd *committer.Command)) {
	t.Helper()
	url := testdb.New(t)
	pool, count := newCountingPool(t, url)
	r, p = newReplica(t, url, func(c *committer.Config) { c.Pool = pool }), newPartner()
	r.must(t, p.post("first", "Title"))
	return r, p, func(want int64, wants any, cmd *committer.Command) {
		t.Helper()
		before := count.Load()
		r.want(t, wants, cmd)
		if n := count.Load() - before; n != want {
			t.Errorf("%s: %d round trips, want %d", cmd.Key, n, want)
		}
	}
}

// TestRoundTrips: a comment on a known novel takes one round trip, as does a reply to a known comment; other commands
// take two, and one more if they may create a novel. Beyond the limit a comment takes none once a replica knows.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	r, p, trips := setupCounting(t)
	trips(1, "post", p.post("a", "Title"))
	trips(1, "post threaded", p.reply("b", "Title", "a"))
	trips(2, "updated", p.novel("u", "Title", novel.Fields{Author: new("Murasaki")}))
	trips(1, "post", p.post("c", "Title"))
	trips(2, "post", p.reply("d", "Title", "nowhere"))
	trips(3, "post", p.post("e", "Other"))
	trips(1, "post", p.post("f", "Other"))
	trips(1, "post", p.reply("g", "Other", "a")) // a parent in another discussion
	trips(3, "created", p.novel("n", "Newer", novel.Fields{}))
	trips(2, "updated replayed", p.novel("u", "Title", novel.Fields{Author: new("Murasaki")}))
	p.PostsPerMinute = r.charged(t, ratelimit.Posts)
	const limited = "error: the limit of 8 comments per minute is reached"
	trips(3, limited, p.post("h", "Title")) // the fast path fails, and the batch is decided again
	trips(0, limited, p.post("h", "Title"))
	trips(0, limited, p.post("a", "Title"))
	checkTruth(t, r.db)
	r.wantCharged(t, 3)
}

// TestRefusalsOnTheFastPath: a decision about an author holds for the next comment, and for no other author. Permits
// are granted exactly, although nothing is read before.
func TestRefusalsOnTheFastPath(t *testing.T) {
	t.Parallel()
	r, p, trips := setupCounting(t)
	trips(1, "post", p.postBy("troll", "a", "Title"))
	block(t, r.db, p, "troll")
	answers := r.together(t, p.postBy("troll", "b", "Title"), p.post("c", "Title"))
	wantAnswers(t, answers, blocked, "post")
	trips(1, "post", p.post("d", "Title"))
	p.PostsPerMinute = r.charged(t, ratelimit.Posts) + 2
	for i, a := range r.together(t, p.post("e", "Title"), p.post("f", "Title"), p.post("g", "Title")) {
		if i < 2 {
			a.want(t, "post")
		} else {
			wantLimited(t, a, ratelimit.Posts, p.PostsPerMinute)
		}
	}
	wantLimited(t, r.submit(t.Context(), p.post("g", "Title")), ratelimit.Posts, p.PostsPerMinute)
	if n := r.charged(t, ratelimit.Posts); n != p.PostsPerMinute {
		t.Errorf("%d comments were charged", n)
	}
	checkTruth(t, r.db)
}

// TestRetriesOnTheFastPath: a batch with a retry is read and decided again. Retries come in bursts, so the next batches
// read their keys at once.
func TestRetriesOnTheFastPath(t *testing.T) {
	t.Parallel()
	r, p, trips := setupCounting(t)
	got := r.together(t, p.post("b", "Title"), p.post("first", "Title"), p.post("b", "Title"), p.reply("c", "Title", "b"))
	wantAnswers(t, got, "post", "post replayed", "post replayed", "post threaded")
	trips(2, "post", p.post("d", "Title"))
	trips(2, "post replayed", p.post("first", "Title"))
	for i := range 64 {
		trips(2, "post", p.post(fmt.Sprint("after ", i), "Title"))
	}
	trips(1, "post", p.post("e", "Title"))
	trips(3, "post replayed", p.post("first", "Title"))
	checkTruth(t, r.db)
}

// TestWhatIsRememberedIsChecked: what another process changes holds for the next comment on a known novel.
func TestWhatIsRememberedIsChecked(t *testing.T) {
	t.Parallel()
	rebuildTitles := func(t *testing.T, r *replica) {
		testdb.Must(rebuild.Run(t.Context(), rebuild.Config{Pool: r.db, Projection: projections.Titles{}}))(t)
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, r *replica)
		want   any
	}{
		"a decision of staff": {func(t *testing.T, r *replica) {
			testdb.Must(newStaff(r.db).RejectNovel(t.Context(), "Title", "no"))(t)
		}, post.ErrNovelNotFound},
		"a decision that was changed": {func(t *testing.T, r *replica) {
			testdb.Must(newStaff(r.db).RejectNovel(t.Context(), "Title", "no"))(t)
			testdb.Must(newStaff(r.db).ApproveNovel(t.Context(), "Title", "yes"))(t)
		}, "post"},
		"rows that changed without an event": {func(t *testing.T, r *replica) {
			if err := pgx.BeginFunc(t.Context(), r.db, func(tx pgx.Tx) error {
				testdb.Exec(t, tx, `UPDATE title_lookup SET state = 'rejected'`)
				return projections.ChangeInline(t.Context(), tx)
			}); err != nil {
				t.Fatal(err)
			}
		}, post.ErrNovelNotFound},
		"a rebuild that restores them": {func(t *testing.T, r *replica) {
			testdb.Exec(t, r.db, `UPDATE title_lookup SET state = 'rejected'`)
			rebuildTitles(t, r)
		}, "post"},
		"a log that lacks the novel": {func(t *testing.T, r *replica) {
			testdb.Lose(t, r.db, `true`)
			testdb.Exec(t, r.db, `ALTER TABLE events ENABLE TRIGGER USER; TRUNCATE title_lookup, threads`)
		}, "post"},
		"a longer log that lacks the novel": {func(t *testing.T, r *replica) {
			testdb.Lose(t, r.db, `true`)
			testdb.Exec(t, r.db, `ALTER TABLE events ENABLE TRIGGER USER; TRUNCATE title_lookup, threads`)
			other := newReplica(t, r.url)
			for i := range 5 {
				other.must(t, newPartner().post(fmt.Sprint(i), fmt.Sprint("New ", i)))
			}
		}, "post"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, p, trips := setupCounting(t)
			trips(1, "post", p.post("known", "Title"))
			c.change(t, r)
			r.want(t, c.want, p.post("next", "Title"))
			r.want(t, c.want, p.post("then", "Title"))
			rebuildTitles(t, r) // after changes by hand
			checkTruth(t, r.db)
		})
	}
}
