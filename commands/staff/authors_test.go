package staff_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/post"
	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

func newIntegration(t testing.TB, s *staff.Staff, name string) uuid.UUID {
	t.Helper()
	made := testdb.Must(s.CreateIntegration(t.Context(), name, principal.Change{}))(t)
	return made.ID
}

// comment is the import of a comment.
func comment(integrationID uuid.UUID, external, key string) events.Recorded {
	return events.Recorded{
		StreamType: events.PostStream, StreamID: events.PostID(integrationID, key), StreamVersion: 1, ID: key,
		Source: events.PostsSource(integrationID),
		Event: events.PostImported{
			IntegrationID: integrationID, NovelID: uuid.UUID{1}, ThreadID: uuid.UUID{2}, WrittenAt: noon,
			Comment: &events.Comment{ExternalUUID: external, Username: "name of " + external, Content: "content of " + key},
		},
	}
}

// appendAll appends events in one transaction.
func appendAll(t testing.TB, s *staff.Staff, recorded ...events.Recorded) {
	t.Helper()
	if err := eventlog.Under(t.Context(), s.Pool, func(tx pgx.Tx) error {
		return projections.Append(t.Context(), tx, recorded...)
	}); err != nil {
		t.Fatal(err)
	}
}

// project applies the events from a position on to the asynchronous tables, and returns the end of the log.
func project(t *testing.T, s *staff.Staff, from events.Position) events.Position {
	t.Helper()
	log := testdb.Must(eventlog.ReadFrom(t.Context(), s.Pool, from, 1_000_000))(t)
	for _, p := range append(projections.All(), projections.Optional()...) {
		testdb.NoError(t, p.Apply(t.Context(), s.Pool, log))
	}
	return from + events.Position(len(log))
}

func TestPostLife(t *testing.T) {
	t.Parallel()
	s := setup(t)
	id := newIntegration(t, s, "Partner")
	who := staff.AuthorName{IntegrationID: id, ExternalUUID: "u"}
	// The clock was set back since: decisions follow the order of the log all the same.
	testdb.Exec(t, s.Pool, `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, event_source,
		event_type, data, actor, batch_id, recorded_at)
		SELECT max(log_index) + 1, 'novel', gen_random_uuid(), 1, 'k', 's', 'novel.approved.v1', '{}', 'a', gen_random_uuid(),
			now() + interval '1 hour' FROM events`)
	appendAll(t, s, comment(id, "u", "k"))
	postID := events.PostID(id, "k")
	type act func(context.Context, uuid.UUID, string) error
	ofPost := func(do func(context.Context, uuid.UUID, string) (staff.Post, error)) act {
		return func(ctx context.Context, id uuid.UUID, reason string) error { return second(do(ctx, id, reason)) }
	}
	ofAuthor := func(do func(context.Context, staff.AuthorName, string) (staff.Author, error)) act {
		return func(ctx context.Context, _ uuid.UUID, reason string) error { return second(do(ctx, who, reason)) }
	}
	hide, restore := ofPost(s.HidePost), ofPost(s.RestorePost)
	hideAll, restoreAll := ofAuthor(s.HideAuthorPosts), ofAuthor(s.RestoreAuthorPosts)
	var projected events.Position
	for _, step := range []struct {
		name, reason string
		do           act
		refused      bool
		state        post.State
		by           string
	}{
		{"restore", "r", restore, true, post.Visible, ""},
		{"hide", "r", hide, false, post.Hidden, post.Individually},
		{"hide again", "r", hide, true, post.Hidden, post.Individually},
		{"restore", "r", restore, false, post.Visible, ""},
		{"hide all", "r", hideAll, false, post.Hidden, post.WithAuthor},
		{"restore one of all", "r", restore, false, post.Visible, ""},
		{"restore one again", "r", restore, true, post.Visible, ""},
		{"hide all again", "r", hideAll, false, post.Hidden, post.WithAuthor},
		{"restore all", "r", restoreAll, false, post.Visible, ""},
		{"restore all again", "r", restoreAll, true, post.Visible, ""},
		{"hide without reason", " ", hide, true, post.Visible, ""},
	} {
		if err := step.do(t.Context(), postID, step.reason); (err != nil) != step.refused {
			t.Fatalf("%s: %v", step.name, err)
		}
		p := testdb.Must(s.Post(t.Context(), postID))(t)
		by := ""
		if p.HiddenBy != nil {
			by = *p.HiddenBy
		}
		if p.State != step.state || by != step.by || *p.Content != "content of k" || p.Author.ExternalUUID != "u" {
			t.Errorf("after %s: %s by %q: %+v", step.name, p.State, by, p)
		}
		projected = project(t, s, projected) // what readers see is the same
		var hidden bool
		var content *string
		if err := s.Pool.QueryRow(t.Context(), `SELECT hidden, content FROM analytics.posts WHERE post_id = $1`, postID).Scan(
			&hidden, &content); err != nil {
			t.Fatal(err)
		}
		if hidden != (step.state == post.Hidden) || (content == nil) != hidden {
			t.Errorf("after %s: readers see hidden %t, content %v", step.name, hidden, content)
		}
	}
	p := testdb.Must(s.Post(t.Context(), postID))(t)
	var types []string
	for _, entry := range p.History {
		types = append(types, entry.Type)
	}
	if diff := cmp.Diff([]string{"post.imported.v1", "post.hidden.v1", "post.restored.v1", "post.restored.v1"},
		types); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	if _, err := s.HidePost(t.Context(), uuid.New(), "r"); !errors.Is(err, post.ErrNotFound) {
		t.Errorf("hide nothing: %v", err)
	}
	if _, err := s.HidePost(t.Context(), id, "r"); !errors.Is(err, post.ErrNotFound) {
		t.Errorf("hide an integration: %v", err)
	}
}

func TestAuthorLife(t *testing.T) {
	t.Parallel()
	s := setup(t)
	id, other := newIntegration(t, s, "Partner"), newIntegration(t, s, "Other")
	who := staff.AuthorName{IntegrationID: id, ExternalUUID: "u/1"}
	if _, err := s.Author(t.Context(), who); !errors.Is(err, staff.ErrNoSuchAuthor) {
		t.Errorf("before anything: %v", err)
	}
	linked := testdb.Must(s.LinkAuthor(t.Context(), who, "member-1", ""))(t)
	want := staff.Author{ID: testdb.AuthorID(id, "u/1"), IntegrationID: id, ExternalUUID: "u/1", MemberID: new("member-1")}
	if diff := cmp.Diff(want, linked); diff != "" {
		t.Errorf("linked before a comment (-want +got):\n%s", diff)
	}
	for _, step := range []struct {
		member string
		events int
	}{{"member-1", 1}, {"member-2", 2}, {"member-2", 2}, {"member-1", 3}} {
		testdb.Must(s.LinkAuthor(t.Context(), who, step.member, "r"))(t)
		if n := len(stream(t, s, linked.ID)); n != step.events {
			t.Errorf("%d events after a link to %s, want %d", n, step.member, step.events)
		}
	}
	if _, err := s.Author(t.Context(), staff.AuthorName{IntegrationID: other, ExternalUUID: "u/1"}); !errors.Is(err,
		staff.ErrNoSuchAuthor) {
		t.Errorf("the same uuid at another partner: %v", err)
	}
	appendAll(t, s, comment(id, "u/1", "k"))
	projected := project(t, s, 0)
	testdb.Must(s.BlockAuthor(t.Context(), who, "spam"))(t)
	const rows = `SELECT md5(string_agg(post_id::text || xmin || ctid, ',' ORDER BY post_id)) FROM posts`
	before := testdb.Value[string](t, s.Pool, rows)
	project(t, s, projected)
	if member := testdb.Value[string](t, s.Pool, `SELECT member_id FROM analytics.posts`); member != "member-1" {
		t.Errorf("the comment is attributed to %q", member)
	}
	if after := testdb.Value[string](t, s.Pool, rows); after != before {
		t.Error("decisions have rewritten posts")
	}
	blocked := testdb.Must(s.UnlinkAuthor(t.Context(), who, "asked"))(t)
	if blocked.MemberID != nil || !blocked.Blocked || blocked.DisplayName == nil ||
		*blocked.DisplayName != "name of u/1" || blocked.FirstSeenAt == nil {
		t.Errorf("%+v", blocked)
	}
	unknown := staff.AuthorName{IntegrationID: uuid.New(), ExternalUUID: "u"}
	if _, err := s.BlockAuthor(t.Context(), unknown, "r"); !errors.Is(err, principal.ErrNotFound) {
		t.Errorf("an author of an unknown integration: %v", err)
	}
}

// TestAuthorPages reads all pages with every filter and expects each author once, in order.
func TestAuthorPages(t *testing.T) {
	t.Parallel()
	s := setup(t)
	id, other := newIntegration(t, s, "Partner"), newIntegration(t, s, "Other")
	var log []events.Recorded
	for _, external := range []string{"a", "B", "c/d", "é", "Z", "z"} {
		log = append(log, comment(id, external, "key of "+external))
	}
	log = append(log, comment(other, "foreign", "k"))
	appendAll(t, s, log...)
	project(t, s, 0)
	name := func(external string) staff.AuthorName {
		return staff.AuthorName{IntegrationID: id, ExternalUUID: external}
	}
	for _, external := range []string{"a", "new"} {
		testdb.Must(s.LinkAuthor(t.Context(), name(external), "m", ""))(t)
	}
	for _, external := range []string{"a", "Z", "%"} {
		testdb.Must(s.BlockAuthor(t.Context(), name(external), "r"))(t)
	}
	testdb.Must(s.HideAuthorPosts(t.Context(), name("z"), "r"))(t)
	yes, no := true, false
	for _, c := range []struct {
		linked, blocked *bool
		want            string
	}{
		{nil, nil, "% B Z a c/d new z é"},
		{&yes, nil, "a new"},
		{&no, nil, "% B Z c/d z é"},
		{nil, &yes, "% Z a"},
		{nil, &no, "B c/d new z é"},
		{&yes, &yes, "a"},
		{&yes, &no, "new"},
		{&no, &yes, "% Z"},
		{&no, &no, "B c/d z é"},
	} {
		for _, size := range []int{1, 2, 3, 100} {
			var got []string
			after := ""
			for {
				list := testdb.Must(s.ListAuthors(t.Context(),
					staff.AuthorFilter{IntegrationID: id, Linked: c.linked, Blocked: c.blocked, After: after, Limit: size}))(t)
				for _, a := range list {
					if a.ID != testdb.AuthorID(id, a.ExternalUUID) || a.IntegrationID != id ||
						a.PostsHidden != (a.ExternalUUID == "z") || a.Blocked != strings.Contains("aZ%", a.ExternalUUID) {
						t.Errorf("%+v", a)
					}
					if seen := a.DisplayName != nil && a.FirstSeenAt != nil; seen != (a.ExternalUUID != "new" &&
						a.ExternalUUID != "%") {
						t.Errorf("%+v", a)
					}
					got = append(got, a.ExternalUUID)
				}
				if len(list) < size {
					break
				}
				after = list[len(list)-1].ExternalUUID
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("linked %v, blocked %v, pages of %d: %q, want %q", show(c.linked), show(c.blocked), size, got, c.want)
			}
		}
	}
	if _, err := s.ListAuthors(t.Context(), staff.AuthorFilter{IntegrationID: uuid.New(), Limit: 1}); !errors.Is(err,
		principal.ErrNotFound) {
		t.Errorf("of an unknown integration: %v", err)
	}
}

func show(b *bool) any {
	if b == nil {
		return "any"
	}
	return *b
}

// TestDecisionsNeedOneConnection: under the lock of the log a decision waits for no other connection, which others that
// wait for the lock may have.
func TestDecisionsNeedOneConnection(t *testing.T) {
	t.Parallel()
	l := setupLive(t)
	recorded := l.comments(l.name, "key", 1)
	appendAll(t, l.Staff, recorded...)
	id := recorded[0].StreamID
	config := l.Pool.Config()
	config.MaxConns = 1
	one := testdb.Must(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(one.Close)
	s := &staff.Staff{Pool: one, Actor: "staff:test", Now: l.Now}
	ctx, cancel := context.WithTimeout(t.Context(), testdb.Patience)
	defer cancel()
	for _, decide := range []func() error{
		func() error { return second(s.BlockAuthor(ctx, l.name, "spam")) },
		func() error { return second(s.HideAuthorPosts(ctx, l.name, "spam")) },
		func() error { return second(s.HidePost(ctx, id, "spam")) },
		func() error { return second(s.RestorePost(ctx, id, "not spam")) },
	} {
		if err := decide(); err != nil {
			t.Error(err)
		}
	}
}

// TestAuthorIDNeedsTheSecret: the id of an author outlives an erasure. It follows from the identifier only with the
// secret of the database.
func TestAuthorIDNeedsTheSecret(t *testing.T) {
	t.Parallel()
	s := setup(t)
	name := staff.AuthorName{IntegrationID: uuid.New(), ExternalUUID: "ünï/1"}
	before := testdb.Must(name.ID(t.Context(), s.Pool))(t)
	if want := testdb.AuthorID(name.IntegrationID, name.ExternalUUID); before != want {
		t.Errorf("the database derives %s, the program %s", before, want)
	}
	testdb.Exec(t, s.Pool, `UPDATE settings SET value = 'another' WHERE name = 'author_secret'`)
	if after := testdb.Must(name.ID(t.Context(), s.Pool))(t); after == before {
		t.Errorf("with another secret the id is still %s", after)
	}
}
