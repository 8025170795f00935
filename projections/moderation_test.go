package projections_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/author"
	"novelgate/aggregates/post"
	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// TestPostIsHidden: the database function and the aggregate agree for every order of decisions.
func TestPostIsHidden(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	at := func(minute int) time.Time { return time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC) }
	for received := 1; received <= 3; received++ {
		for moderated := range 5 { // 0: never
			for until := range 5 { // 0: never
				for _, hides := range []bool{false, true} {
					history := []events.Recorded{{Event: events.PostImported{}, RecordedAt: at(received)}}
					var moderatedAt, hiddenUntil *time.Time
					if moderated > 0 {
						moderatedAt = new(at(moderated))
						var event events.Event = events.PostRestored{}
						if hides {
							event = events.PostHidden{}
						}
						history = append(history, events.Recorded{Event: event, RecordedAt: *moderatedAt})
					}
					var by author.Author
					if until > 0 {
						hiddenUntil, by.PostsHiddenUntil = new(at(until)), at(until)
					}
					want := post.Fold(history).Visibility(by).State == post.Hidden
					var got bool
					err := pool.QueryRow(t.Context(), `SELECT post_is_hidden($1, $2, $3, $4)`, hides && moderated > 0, moderatedAt,
						at(received), hiddenUntil).Scan(&got)
					if err != nil {
						t.Fatal(err)
					}
					if got != want {
						t.Errorf("received %d, moderated %d (hidden: %t), author's hidden until %d: the database says %t, the "+
							"aggregate %t", received, moderated, hides, until, got, want)
					}
				}
			}
		}
	}
}

// TestAuthorsPostsInAnalytics: a decision about an author affects all of their posts at once, and no others.
func TestAuthorsPostsInAnalytics(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	var log []events.Recorded
	for i, external := range []string{"u", "other", "u"} {
		c := comment(seeded(1), string(rune('a'+i)))
		e, _ := c.Event.(events.PostImported)
		e.Comment.ExternalUUID = external
		c.RecordedAt, c.LogIndex = at.Add(time.Duration(i)*time.Hour), int64(i)
		log = append(log, c)
	}
	append1(t, pool, log...)
	applyAsync(t, pool, log)
	ref := events.AuthorRef{IntegrationID: integrationID, Author: &events.ExternalAuthor{ExternalUUID: "u"}}
	applyBatch(t, pool, projections.AuthorDecisions{}, history(events.AuthorStream, testdb.AuthorID(integrationID, "u"), 1,
		events.AuthorLinked{IntegrationID: integrationID, Link: &events.AuthorLink{ExternalUUID: "u", MemberID: "m"}},
		events.AuthorBlocked{AuthorRef: ref}, events.AuthorPostsHidden{AuthorRef: ref, Until: at.Add(time.Minute)}))

	posts := testdb.Values[string](t, pool, `SELECT concat_ws(' ', idempotency_key, hidden, content IS NULL, member_id)
		FROM analytics.posts ORDER BY 1`)
	if diff := cmp.Diff([]string{"a t t m", "b f f", "c f f m"}, posts); diff != "" {
		t.Errorf("key, hidden, without text, member (-want +got):\n%s", diff)
	}
	var blocked, linked int
	if err := pool.QueryRow(t.Context(),
		`SELECT count(*) FILTER (WHERE blocked), count(member_id) FROM analytics.authors`).Scan(&blocked, &linked); err != nil {
		t.Fatal(err)
	}
	if blocked != 1 || linked != 1 {
		t.Errorf("%d blocked, %d linked of two authors", blocked, linked)
	}
}

func applyAsync(t *testing.T, pool *pgxpool.Pool, batch []events.Recorded) {
	t.Helper()
	for _, p := range projections.All() {
		if err := p.Apply(context.Background(), pool, batch); err != nil {
			t.Fatalf("apply to %s: %v", p.Name(), err)
		}
	}
}

// TestCommentsWithNames: the view for spreadsheets has names, the chapter of the discussion, and says of a reply that
// it has lost its parent.
func TestCommentsWithNames(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	registered := history(events.IntegrationStream, integrationID, 1, events.IntegrationRegistered{Name: "Inkwell"})
	novel := events.NovelCreated{Title: "Genji", Slug: "genji", Author: "M", State: "published"}
	said := func(key, parent, chapter string, lost bool) events.Recorded {
		c := comment(seeded(1), key)
		e, _ := c.Event.(events.PostImported)
		e.NovelID, e.ParentPostID, e.ChapterNumber, e.ParentLost = uuid.UUID{7}, nil, nil, lost
		e.Comment.Username = "Ada"
		if parent != "" {
			e.ParentPostID = new(events.PostID(integrationID, parent))
		}
		if chapter != "" {
			e.ChapterNumber = jsontext.Value(chapter)
		}
		c.Event = e
		return c
	}
	log := slices.Concat(registered, history(events.NovelStream, uuid.UUID{7}, 1, novel), []events.Recorded{
		said("a", "", "1.5", false), said("b", "a", "", false), said("c", "b", "9", false), said("d", "", "2", true),
	})
	for i := range log {
		log[i].LogIndex, log[i].RecordedAt = int64(i), time.Date(2026, 1, 2, 3, 4, i, 0, time.UTC)
	}
	append1(t, pool, log...)
	applyBatch(t, pool, projections.Integrations{}, log)
	applyAsync(t, pool, log)
	got := testdb.Values[string](t, pool, `SELECT concat_ws(' ', left(c.content, 1) = '“', c.partner, c.title,
		c.chapter_number, c.author, c.depth, c.parent_lost) FROM analytics.comments AS c JOIN posts USING (post_id) ORDER BY log_index`)
	want := []string{
		"t Inkwell Genji 1.5 Ada 0 f", "t Inkwell Genji 1.5 Ada 1 f", "t Inkwell Genji 1.5 Ada 2 f",
		"t Inkwell Genji 2 Ada 0 t",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
