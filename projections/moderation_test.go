package projections_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/author"
	"novelgate/aggregates/post"
	"novelgate/events"
	"novelgate/projections"
)

type decisionRow struct {
	AuthorID, IntegrationID uuid.UUID
	ExternalUUID, MemberID  *string
	Blocked                 bool
	HiddenUntil             *time.Time
	Version                 int
}

func readDecisions(t *testing.T, pool *pgxpool.Pool) []decisionRow {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT author_id, integration_id, external_uuid, member_id, blocked, posts_hidden_until AT TIME ZONE 'UTC',
		stream_version FROM author_decisions`)
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := pgx.CollectRows(rows, pgx.RowToStructByPos[decisionRow])
	if err != nil {
		t.Fatal(err)
	}
	return decisions
}

// TestAuthorDecisions looks at the row after each event, which comes twice.
func TestAuthorDecisions(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	noon := time.Date(2026, 1, 2, 12, 0, 0, 123456000, time.UTC)
	ref := events.AuthorRef{IntegrationID: integrationID, Author: &events.ExternalAuthor{ExternalUUID: "u"}}
	id := events.AuthorID(integrationID, "u")
	row := decisionRow{AuthorID: id, IntegrationID: integrationID, ExternalUUID: new("u")}
	for i, step := range []struct {
		event events.Event
		then  func(*decisionRow)
	}{
		{events.AuthorBlocked{AuthorRef: ref, Reason: "r"}, func(r *decisionRow) { r.Blocked = true }},
		{
			events.AuthorLinked{IntegrationID: integrationID, Link: &events.AuthorLink{ExternalUUID: "u", MemberID: "m"}},
			func(r *decisionRow) { r.MemberID = new("m") },
		},
		{events.AuthorPostsHidden{AuthorRef: ref, Until: noon}, func(r *decisionRow) { r.HiddenUntil = &noon }},
		{events.AuthorUnblocked{AuthorRef: ref}, func(r *decisionRow) { r.Blocked = false }},
		{
			events.AuthorLinked{IntegrationID: integrationID, Link: &events.AuthorLink{ExternalUUID: "u", MemberID: "n"}},
			func(r *decisionRow) { r.MemberID = new("n") },
		},
		{events.AuthorPostsRestored{AuthorRef: ref}, func(r *decisionRow) { r.HiddenUntil = nil }},
		{events.AuthorUnlinked{AuthorRef: ref}, func(r *decisionRow) { r.MemberID = nil }},
		{events.AuthorLinked{IntegrationID: integrationID}, func(*decisionRow) {}}, // erased: nobody knows to whom
	} {
		step.then(&row)
		row.Version = i + 1
		for range 2 {
			applyBatch(t, pool, projections.AuthorDecisions{}, history(events.AuthorStream, id, i+1, step.event))
			if diff := cmp.Diff([]decisionRow{row}, readDecisions(t, pool)); diff != "" {
				t.Errorf("after %s (-want +got):\n%s", step.event.Type(), diff)
			}
		}
	}
}

// TestPostIsHidden: the database and the aggregate agree on every order of what may happen.
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
					want := post.Fold(history).Standing(by).State == post.Hidden
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

// TestAuthorsPostsInAnalytics: what is decided about an author shows on all of their posts at once, and theirs alone.
func TestAuthorsPostsInAnalytics(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	var log []events.Recorded
	for i, uuid := range []string{"u", "other", "u"} {
		c := comment(seeded(1), string(rune('a'+i)))
		e, _ := c.Event.(events.PostImported)
		e.Comment.ExternalUUID = uuid
		c.RecordedAt = at.Add(time.Duration(i) * time.Hour)
		log = append(log, c)
	}
	append1(t, pool, log...)
	applyAsync(t, pool, log)
	ref := events.AuthorRef{IntegrationID: integrationID, Author: &events.ExternalAuthor{ExternalUUID: "u"}}
	applyBatch(t, pool, projections.AuthorDecisions{}, history(events.AuthorStream, events.AuthorID(integrationID, "u"), 1,
		events.AuthorLinked{IntegrationID: integrationID, Link: &events.AuthorLink{ExternalUUID: "u", MemberID: "m"}},
		events.AuthorBlocked{AuthorRef: ref}, events.AuthorPostsHidden{AuthorRef: ref, Until: at.Add(time.Minute)}))

	want := referencePosts(log)
	first, last := want[log[0].StreamID], want[log[2].StreamID]
	first.Hidden, first.MemberID, last.MemberID = true, new("m"), new("m")
	want[log[0].StreamID], want[log[2].StreamID] = first, last
	posts, _ := readTables(t, pool)
	if diff := cmp.Diff(want, posts); diff != "" {
		t.Errorf("posts (-want +got):\n%s", diff)
	}
	if texts := readTexts(t, pool); len(texts) != 2 || texts[log[0].StreamID] != "" {
		t.Errorf("analysts read %v", texts)
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
