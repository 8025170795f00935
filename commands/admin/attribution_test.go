package admin_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// TestLinkAttributesEverything: however much an author has written, the link is one event, shows at once, and touches
// no post.
func TestLinkAttributesEverything(t *testing.T) {
	t.Parallel()
	const posts = 5_000
	d := newDesk(t)
	d.importPosts(t, "prolific", posts)
	d.importPosts(t, "other", 10)
	d.follow(t)

	before := d.rows(t)
	logged := d.count(t, `SELECT count(*) FROM events`)
	for i, step := range []struct {
		method, body string
		status       int
		member       string
	}{
		{http.MethodPut, `{"memberId":"member-1"}`, http.StatusOK, "member-1"},
		{http.MethodPut, `{"memberId":"member-2"}`, http.StatusOK, "member-2"},
		{http.MethodDelete, "", http.StatusNoContent, ""},
	} {
		if a := d.send(t, d.ada, step.method, d.author("prolific")+"/member", "", step.body); a.status != step.status {
			t.Fatalf("%s %s: %d %s", step.method, step.body, a.status, a.text)
		}
		answered := time.Now()
		attributed := d.count(t, `SELECT count(*) FROM analytics.posts WHERE member_id = $1`, step.member)
		took := time.Since(answered)
		want := posts
		if step.member == "" {
			want = 0
		}
		if attributed != want {
			t.Errorf("%q: %d posts, want %d", step.member, attributed, want)
		}
		if n := d.count(t, `SELECT count(*) FROM analytics.posts WHERE member_id IS NOT NULL`); n != want {
			t.Errorf("%q: %d posts have a member, want %d", step.member, n, want)
		}
		t.Logf("%s %s: all of %d posts read %s after the answer", step.method, step.body, posts, took)
		if n := d.count(t, `SELECT count(*) FROM events`) - logged; n != i+1 {
			t.Errorf("%d events after %d commands", n, i+1)
		}
	}
	if after := d.rows(t); after != before {
		t.Error("posts were rewritten")
	}
}

// importPosts appends what the comments of one author leave in the log.
func (d *desk) importPosts(t *testing.T, external string, n int) {
	t.Helper()
	integrationID := uuid.MustParse(d.integrationID)
	const size = 5000
	for done := 0; done < n; done += size {
		recorded := make([]events.Recorded, min(size, n-done))
		for i := range recorded {
			key := fmt.Sprintf("%s-%d", external, done+i)
			recorded[i] = events.Recorded{
				StreamType: events.PostStream, StreamID: events.PostID(integrationID, key), StreamVersion: 1, ID: key,
				Source: events.PostsSource(integrationID),
				Event: events.PostImported{
					IntegrationID: integrationID, NovelID: uuid.UUID{1}, ThreadID: uuid.UUID{2},
					WrittenAt: time.Unix(int64(done+i), 0).UTC(),
					Comment:   &events.Comment{ExternalUUID: external, Username: "Name", Content: "content of " + key},
				},
			}
		}
		if err := projections.Append(t.Context(), d.staff.Pool, recorded...); err != nil {
			t.Fatal(err)
		}
	}
}

// follow runs the projections until they have applied the whole log.
func (d *desk) follow(t *testing.T) {
	t.Helper()
	runner, err := projections.NewRunner(projections.Config{Pool: d.staff.Pool, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	testdb.Eventually(t, "the projections have caught up", func() bool {
		return d.count(t, `SELECT count(*) FROM projections WHERE (transaction_id, position) >= (
			SELECT transaction_id, position FROM events ORDER BY transaction_id DESC, position DESC LIMIT 1)`) >= len(projections.All())
	})
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func (d *desk) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := d.staff.Pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// rows digests which versions of which rows the table of posts consists of.
func (d *desk) rows(t *testing.T) (digest string) {
	t.Helper()
	err := d.staff.Pool.QueryRow(t.Context(),
		`SELECT md5(string_agg(post_id::text || xmin || ctid, ',' ORDER BY post_id)) FROM posts`).Scan(&digest)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}
