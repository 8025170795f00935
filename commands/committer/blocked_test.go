package committer_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/aggregates/author"
	"novelgate/commands/committer"
	"novelgate/events"
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
	got := r.together(t, p.postBy("troll", "1", "Title"), p.postBy("reader", "2", "Title"), q.postBy("troll", "3", "Title"),
		p.postBy("troll", "before", "Title"), p.postBy("troll", "4", "Title"))
	blocked := "error: " + author.ErrBlocked.Error()
	if diff := cmp.Diff([]string{blocked, "post", "post", "post replayed", blocked}, texts(got)); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if got[3].post.PostID != original.post.PostID {
		t.Errorf("the replay is %s, want %s", got[3].post.PostID, original.post.PostID)
	}
}
