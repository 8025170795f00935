package committer_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

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

// TestBlockedAuthorCreatesNothing: neither a post nor a novel, and no permit to create one is asked for.
func TestBlockedAuthorCreatesNothing(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	r := newReplica(t, url)
	p := newPartner()
	block(t, url, p, "troll")
	for _, spelling := range []string{"Unknown", "Unknown, too"} {
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

// TestBlockedAuthorIsBlockedBeforeTheNovelMatters: who lacks the right to create novels hears of the block, not of
// the novel.
func TestBlockedAuthorIsBlockedBeforeTheNovelMatters(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	r := newReplica(t, url)
	p := newPartner()
	p.MayCreateNovels = false
	block(t, url, p, "troll")
	if a := r.submit(t.Context(), p.postBy("troll", "k", "Unknown")); !errors.Is(a.err, author.ErrBlocked) {
		t.Error(a)
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
	var wg sync.WaitGroup
	for i := range scaled(200) {
		key := fmt.Sprint("key ", i)
		wg.Go(func() {
			switch i % 4 {
			case 0:
				if a := r.submit(t.Context(), p.postBy("troll", key, "Title")); !errors.Is(a.err, author.ErrBlocked) {
					t.Errorf("blocked: %v", a)
				}
			case 1:
				if a := r.submit(t.Context(), p.postBy("reader", key, "Title")); a.err != nil || a.post.Replayed {
					t.Errorf("somebody else: %v", a)
				}
			case 2:
				if a := r.submit(t.Context(), q.postBy("troll", key, "Title")); a.err != nil || a.post.Replayed {
					t.Errorf("the same uuid at another partner: %v", a)
				}
			default:
				if a := r.submit(t.Context(), p.postBy("troll", "before", "Title")); a.err != nil || !a.post.Replayed ||
					a.post.PostID != original.post.PostID {
					t.Errorf("replay: %v", a)
				}
			}
		})
	}
	wg.Wait()
}
