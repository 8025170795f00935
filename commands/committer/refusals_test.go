package committer_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/aggregates/author"
	"novelgate/aggregates/novel"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/events"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// block records that an author is blocked.
func block(t *testing.T, url string, p partner, external string) {
	t.Helper()
	ref := events.AuthorRef{IntegrationID: p.IntegrationID, Author: &events.ExternalAuthor{ExternalUUID: external}}
	record(t, direct(t, url), events.Recorded{
		StreamType: events.AuthorStream, StreamID: events.AuthorID(p.IntegrationID, external), StreamVersion: 1,
		ID: uuid.NewString(), Source: "staff/tests", Event: events.AuthorBlocked{AuthorRef: ref, Reason: "spam"},
	})
}

func (p partner) postBy(external, key, spelling string) *committer.ImportPost {
	cmd := p.post(key, spelling)
	cmd.Import.Comment.ExternalUUID = external
	return cmd
}

// TestBlockedAuthorCreatesNothing: neither a post nor a novel, and no permit to create one is asked for. A partner who
// may not create novels is told of the block, too, not of the novel.
func TestBlockedAuthorCreatesNothing(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	r := newReplica(t, url)
	p := newPartner()
	block(t, url, p, "troll")
	for i, spelling := range []string{"Unknown", "Unknown, too"} {
		p.MayCreateNovels = i == 0
		if a := r.submit(t.Context(), p.postBy("troll", "key of "+spelling, spelling)); !errors.Is(a.err, author.ErrBlocked) {
			t.Errorf("%s: %v", spelling, a)
		}
	}
	if r.permits.calls != 0 {
		t.Errorf("the limiter was asked %d times", r.permits.calls)
	}
	var n int
	if err := direct(t, url).QueryRow(t.Context(),
		`SELECT count(*) FROM events WHERE stream_type <> 'author'`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d events, %v", n, err)
	}
}

// TestBlockedAuthorsNeighbours: in one batch with others, a blocked author is refused alone, and their earlier
// comments are replayed.
func TestBlockedAuthorsNeighbours(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	r := newReplica(t, url, oneLane)
	p, q := newPartner(), newPartner()
	original := r.submit(t.Context(), p.postBy("troll", "before", "Title"))
	if original.err != nil {
		t.Fatal(original)
	}
	block(t, url, p, "troll")
	got := r.together(t,
		p.postBy("troll", "1", "Title"), p.postBy("reader", "2", "Title"), q.postBy("troll", "3", "Title"),
		p.postBy("troll", "before", "Title"), p.postBy("troll", "4", "Title"))
	blocked := "error: " + author.ErrBlocked.Error()
	if diff := cmp.Diff([]string{blocked, "post", "post", "post replayed", blocked}, texts(got)); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if got[3].post.PostID != original.post.PostID {
		t.Errorf("the replay is %s, want %s", got[3].post.PostID, original.post.PostID)
	}
}

// withLimiter gives a replica the limiter of the service.
func withLimiter(t *testing.T, url string) func(*committer.Config) {
	t.Helper()
	pools, err := database.Open(t.Context(), url, 1, database.DefaultConnections(1))
	if err != nil {
		t.Fatal(err)
	}
	limiter := ratelimit.New(pools.Limits, time.Now)
	t.Cleanup(func() {
		limiter.Close()
		pools.Close()
	})
	return func(c *committer.Config) { c.Permits = limiter }
}

func TestUpdatesAreLimited(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	r := newReplica(t, url, withLimiter(t, url))
	p, other := newPartner(), newPartner()
	p.NovelUpdatesPerMinute = ptr(2)
	field := func(s string) novel.Fields { return novel.Fields{Synopsis: &s} }
	send := func(want string, command any) {
		t.Helper()
		if a := r.submit(t.Context(), command); a.String() != want {
			t.Errorf("%v, want %s", a, want)
		}
	}
	send("created", other.novel("theirs", "Theirs", field("1")))
	send("created", p.novel("1", "Title", field("1"))) // creations have their own limit
	send("updated", p.novel("2", "Title", field("2")))
	send("foreign", p.novel("foreign", "Theirs", field("2")))
	send("updated", p.novel("3", "Title", field("2"))) // changes nothing, and is on record all the same
	for range 2 {
		a := r.submit(t.Context(), p.novel("4", "Title", field("4")))
		var refused *committer.RateLimitedError
		if !errors.As(a.err, &refused) || refused.Operation != ratelimit.NovelUpdates || refused.Limit != 2 ||
			refused.RetryAfter <= 0 || refused.RetryAfter > time.Minute {
			t.Errorf("the third update: %v", a)
		}
	}
	send("updated replayed", p.novel("2", "Title", field("2"))) // a retry updates nothing
	send("post", p.post("p", "Title"))
	send("created", p.novel("5", "Another", field("1")))
	send("updated", other.novel("6", "Theirs", field("3"))) // without a limit
	p.NovelUpdatesPerMinute = ptr(3)
	send("updated", p.novel("4", "Title", field("4"))) // its key was not used
	p.NovelUpdatesPerMinute = nil
	for i := range 5 {
		send("updated", p.novel(fmt.Sprint("free ", i), "Title", field(fmt.Sprint(i))))
	}
	checkTruth(t, direct(t, url))
}

// TestUpdatesOfOneBatchAreLimited takes as many permits as the batch needs, and keeps to what was granted.
func TestUpdatesOfOneBatchAreLimited(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	r := newReplica(t, url, oneLane)
	p := newPartner()
	p.NovelUpdatesPerMinute = ptr(2)
	r.permits.limit(uuid.Nil, 3) // one creation, two updates
	var commands []any
	for i := range 5 {
		commands = append(commands, p.novel(fmt.Sprint(i), "Title", novel.Fields{Synopsis: ptr(fmt.Sprint(i))}))
	}
	commands = append(commands, p.novel("2", "Title", novel.Fields{Synopsis: ptr("2")}))
	const limited = "error: the limit of 2 novel updates per minute is used up"
	want := []string{"created", "updated", "updated", limited, limited, "updated replayed"}
	if diff := cmp.Diff(want, texts(r.together(t, commands...))); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if used := r.used(); used != 3 {
		t.Errorf("%d permits are used, want 3", used)
	}
}

// TestUnchangedUpsertAppendsNothingButItsKey stores every field twice.
func TestUnchangedUpsertAppendsNothingButItsKey(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	r := newReplica(t, url)
	p := newPartner()
	fields := novel.Fields{
		Author: ptr("Murasaki"), Synopsis: ptr("A prince."), CoverURL: ptr("https://example.com/c.png"), Language: ptr("ja"),
		ReadingStatus: ptr("ongoing"), Genres: ptr([]string{"court", "romance"}),
	}
	cleared := novel.Fields{Synopsis: ptr(""), Language: ptr(""), Genres: ptr([]string{})}
	for _, command := range []any{
		p.novel("1", "Genji", fields), p.novel("same", "genji", fields), p.novel("none", "Genji", novel.Fields{}),
		p.novel("2", "Genji", cleared), p.novel("cleared again", "Genji", cleared),
		p.novel("3", "Bare", novel.Fields{}),
		p.novel("default", "Bare", novel.Fields{Author: ptr("Unknown"), Synopsis: ptr(""), Genres: ptr([]string{})}),
	} {
		if a := r.submit(t.Context(), command); a.err != nil {
			t.Fatal(a.err)
		}
	}
	pool := direct(t, url)
	for key, want := range map[string]string{
		"same": "{}", "none": "{}", "2": `{"synopsis":"","genres":[],"language":""}`, "cleared again": "{}", "default": "{}",
	} {
		var got string
		if err := pool.QueryRow(t.Context(), `SELECT data::text FROM events WHERE event_id = $1`,
			key).Scan(&got); err != nil || got != want {
			t.Errorf("%s is stored as %s, want %s: %v", key, got, want, err)
		}
	}
	checkTruth(t, pool)
}

// TestGrowthOfTheLogIsCounted compares the metrics with the log.
func TestGrowthOfTheLogIsCounted(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	r := newReplica(t, url)
	p, other := newPartner(), newPartner()
	for i := range 5 {
		r.submit(t.Context(), p.post(fmt.Sprint(i), "Title"))
		r.submit(t.Context(), p.post("0", "Title")) // a retry appends nothing
	}
	r.submit(t.Context(), other.novel("n", "Another", novel.Fields{}))
	pool := direct(t, url)
	for _, id := range []uuid.UUID{p.IntegrationID, other.IntegrationID} {
		var events, bytes float64
		if err := pool.QueryRow(t.Context(), `SELECT count(*), sum(octet_length(data::text) + coalesce(octet_length(personal::text), 0) + 450)
			FROM events WHERE integration_id = $1`, id).Scan(&events, &bytes); err != nil || events == 0 {
			t.Fatalf("%v events, %v", events, err)
		}
		if got := r.counter("novelgate_log_events_total", id.String()); got != int(events) {
			t.Errorf("%v events are counted, want %v", got, events)
		}
		if got := r.counter("novelgate_log_bytes_total", id.String()); got != int(bytes) {
			t.Errorf("%v bytes are counted, want %v", got, bytes)
		}
	}
}

// TestReplyAwaitsItsParent: it is refused until the parent is on record, creates nothing before, and takes its
// neighbours on neither path down.
func TestReplyAwaitsItsParent(t *testing.T) {
	t.Parallel()
	r := newReplica(t, testdb.New(t), oneLane)
	p := newPartner()
	await := func(key, spelling, parent string) *committer.ImportPost {
		cmd := p.reply(key, spelling, parent)
		cmd.AwaitParent = true
		return cmd
	}
	unknown := "error: " + committer.ErrParentUnknown.Error()
	for round, test := range []struct {
		commands []any
		want     []string
	}{
		{[]any{await("a", "New", "later"), p.post("b", "Title")}, []string{unknown, "post"}},
		{
			[]any{await("c", "Title", "b"), await("d", "Title", "e"), p.post("e", "Title"), await("f", "Title", "e")},
			[]string{"post threaded", unknown, "post", "post threaded"},
		},
		{[]any{await("d", "Title", "e"), await("c", "Title", "x")}, []string{"post threaded", "post replayed threaded"}},
	} {
		if diff := cmp.Diff(test.want, texts(r.together(t, test.commands...))); diff != "" {
			t.Errorf("round %d (-want +got):\n%s", round, diff)
		}
	}
	if a := r.submit(t.Context(), p.post("a", "New")); a.err != nil || a.post.Replayed {
		t.Errorf("the refused reply has left %v", a)
	}
}

// TestReplayNamesItsOriginal by the request id.
func TestReplayNamesItsOriginal(t *testing.T) {
	t.Parallel()
	r := newReplica(t, testdb.New(t))
	p := newPartner()
	p.RequestID = "first"
	commands := []any{p.novel("n", "Title", novel.Fields{}), p.post("c", "Title")}
	for _, command := range commands {
		if a := r.submit(t.Context(), command); a.err != nil {
			t.Fatal(a)
		}
	}
	p.RequestID = "second"
	upsert := r.submit(t.Context(), p.novel("n", "Title", novel.Fields{}))
	post := r.submit(t.Context(), p.post("c", "Title"))
	want := []committer.Original{{"first", "novel.created.v1"}, {"first", "post.imported.v1"}}
	if diff := cmp.Diff(want, []committer.Original{upsert.novel.Original, post.post.Original}); diff != "" {
		t.Errorf("originals (-want +got):\n%s", diff)
	}
}
