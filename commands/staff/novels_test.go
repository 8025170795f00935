package staff_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/internal/title"
)

func TestModerateRefusals(t *testing.T) {
	t.Parallel()
	s := setup(t)
	imported(t, s, "Genji", novel.Approved)
	for name, c := range map[string]struct {
		do            func(context.Context, string, string) (staff.Novel, error)
		title, reason string
		want          error
	}{
		"approve an unknown title": {s.ApproveNovel, "Unknown", "why", staff.ErrNovelNotFound},
		"reject an empty title":    {s.RejectNovel, " ", "why", staff.ErrTitleInvalid},
		"approve an empty title":   {s.ApproveNovel, "", "why", staff.ErrTitleInvalid},
		"reject with NUL":          {s.RejectNovel, "Genji", "a\x00b", staff.ErrReasonInvalid},
		"publish with bad UTF-8":   {publishing(s), "Genji", "a\xffb", staff.ErrReasonInvalid},
		"approve without a reason": {s.ApproveNovel, "Genji", "", staff.ErrReasonRequired},
		"reject without a reason":  {s.RejectNovel, "Genji", "", staff.ErrReasonRequired},
		"approve with a blank one": {s.ApproveNovel, "Genji", " \t\n", staff.ErrReasonRequired},
		"reject with a blank one":  {s.RejectNovel, "Genji", "\u3000 ", staff.ErrReasonRequired},
		"publish an empty title":   {publishing(s), " \t", "", staff.ErrTitleInvalid},
		"publish a long title":     {publishing(s), strings.Repeat("é", title.MaxLen+1), "", staff.ErrTitleInvalid},
	} {
		if _, err := c.do(t.Context(), c.title, c.reason); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := s.PublishNovel(t.Context(), strings.Repeat("é", title.MaxLen), novel.Fields{}, ""); err != nil {
		t.Errorf("the longest title: %v", err)
	}
	if _, err := s.Novel(t.Context(), "Unknown"); !errors.Is(err, staff.ErrNovelNotFound) {
		t.Errorf("show: %v", err)
	}
}

func TestSlugsClashAtOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	slugs := map[string]string{}
	for _, spelled := range []string{"Genji", "Genji!", "Genji?", "Genji.", "(Genji)"} {
		wg.Go(func() {
			got, err := s.PublishNovel(t.Context(), spelled, novel.Fields{}, "")
			if err != nil {
				t.Errorf("%s: %v", spelled, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if other, taken := slugs[got.Slug]; taken {
				t.Errorf("%s and %s share %q", spelled, other, got.Slug)
			}
			slugs[got.Slug] = spelled
		})
	}
	wg.Wait()
}

// TestMovesByID: an unknown title has no id, and the id of an integration is refused.
func TestMovesByID(t *testing.T) {
	t.Parallel()
	s := setup(t)
	unknown, integration := events.NovelID("unknown"), newIntegration(t, s, "Partner")
	for name, move := range map[string]func(context.Context, uuid.UUID, string) (staff.Novel, error){
		"publish": s.PublishByID, "approve": s.ApproveByID, "reject": s.RejectByID,
		"edit": func(ctx context.Context, id uuid.UUID, reason string) (staff.Novel, error) {
			return s.EditNovel(ctx, id, novel.Fields{}, reason)
		},
	} {
		for _, id := range []uuid.UUID{unknown, integration} {
			if _, err := move(t.Context(), id, "why"); !errors.Is(err, staff.ErrNoSuchNovel) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if list := stream(t, s, unknown); len(list) != 0 {
		t.Errorf("events %+v", list)
	}
	barred := testdb.Must(s.RejectNovel(t.Context(), "Genji", "no"))(t)
	for _, step := range []struct {
		do   func(context.Context, uuid.UUID, string) (staff.Novel, error)
		want novel.State
	}{
		{s.ApproveByID, novel.Free},
		{s.RejectByID, novel.Rejected},
		{s.ApproveByID, novel.Free},
		{s.PublishByID, novel.Published},
	} {
		if got, err := step.do(t.Context(), barred.NovelID, "why"); err != nil || got.State != step.want ||
			got.Slug != barred.Slug {
			t.Errorf("%+v, %v; want %s", got, err, step.want)
		}
	}
}

func TestPublishWithFields(t *testing.T) {
	t.Parallel()
	s := setup(t)
	fields := novel.Fields{
		Author: new("Murasaki"), Synopsis: new("A prince."), CoverURL: new("https://example.com/c"), Language: new("ja"),
		ReadingStatus: new("completed"), Genres: new([]string{"court"}),
	}
	got := testdb.Must(s.PublishNovel(t.Context(), "Genji", fields, "ours"))(t)
	want := staff.Novel{
		NovelID: events.NovelID("genji"), Slug: "genji", Title: "Genji", Author: "Murasaki", Synopsis: "A prince.",
		CoverURL: "https://example.com/c",
		Genres:   []string{"court"}, Language: "ja", ReadingStatus: "completed", Owner: staff.Host, State: novel.Published,
		FoldedTitle: "genji",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// Publishing a partner's novel and changing it is one transaction; unchanged fields are not recorded.
	id := imported(t, s, "Heike", novel.Pending)
	fields.Author = new("Unknown")
	got = testdb.Must(s.PublishNovel(t.Context(), "HEIKE", fields, "licensed"))(t)
	if got.Title != "Heike" || got.Author != "Unknown" || got.Language != "ja" || got.Owner != staff.Host {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff([]events.Event{
		events.NovelPublished{Reason: "licensed"},
		events.NovelUpdated{
			Synopsis: fields.Synopsis, CoverURL: fields.CoverURL, Language: fields.Language, ReadingStatus: fields.ReadingStatus,
			Genres: fields.Genres,
		},
	}, stream(t, s, id)[1:]); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if n := testdb.Value[int](t, s.Pool,
		`SELECT count(DISTINCT batch_id) FROM events WHERE stream_id = $1 AND stream_version > 1`, id); n != 1 {
		t.Errorf("%d appends", n)
	}
}

func TestEdit(t *testing.T) {
	t.Parallel()
	s := setup(t)
	made := testdb.Must(s.PublishNovel(t.Context(), "Genji",
		novel.Fields{Language: new("ja"), Genres: new([]string{"court"})}, ""))(t)
	want := made
	want.Author, want.Language, want.Genres = "Murasaki", "", []string{}
	for range 2 { // the second time nothing is left to change
		got := testdb.Must(s.EditNovel(t.Context(), made.NovelID,
			novel.Fields{Author: new("Murasaki"), Language: new(""), Genres: new([]string{}), Synopsis: new("")}, "typo"))(t)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff([]events.Event{
		events.NovelUpdated{Author: new("Murasaki"), Language: new(""), Genres: new([]string{}), Reason: "typo"},
	}, stream(t, s, made.NovelID)[1:]); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestOwnersAreListed distinguishes host, integration and no owner.
func TestOwnersAreListed(t *testing.T) {
	t.Parallel()
	s := setup(t)
	imported(t, s, "Partner's", novel.Approved)
	imported(t, s, "Partner's, rejected", novel.Approved)
	for _, do := range []func() (staff.Novel, error){
		func() (staff.Novel, error) { return s.RejectNovel(t.Context(), "Partner's, rejected", "no") },
		func() (staff.Novel, error) { return s.PublishNovel(t.Context(), "Host's", novel.Fields{}, "") },
		func() (staff.Novel, error) { return s.RejectNovel(t.Context(), "Barred", "no") },
		func() (staff.Novel, error) { return s.RejectNovel(t.Context(), "Free", "no") },
		func() (staff.Novel, error) { return s.ApproveNovel(t.Context(), "Free", "yes") },
	} {
		testdb.Must(do())(t)
	}
	for _, c := range []struct {
		filter staff.NovelFilter
		want   []string
	}{
		{staff.NovelFilter{}, []string{"Barred", "Free", "Host's", "Partner's", "Partner's, rejected"}},
		{staff.NovelFilter{Owner: staff.Host}, []string{"Host's"}},
		{staff.NovelFilter{Owner: staff.NoOwner}, []string{"Barred", "Free"}},
		{staff.NovelFilter{Owner: partner.String()}, []string{"Partner's", "Partner's, rejected"}},
		{staff.NovelFilter{State: novel.Rejected}, []string{"Barred", "Partner's, rejected"}},
		{staff.NovelFilter{State: novel.Rejected, Owner: staff.NoOwner}, []string{"Barred"}},
		{staff.NovelFilter{State: novel.Free}, []string{"Free"}},
		{staff.NovelFilter{After: "free"}, []string{"Host's", "Partner's", "Partner's, rejected"}},
		{staff.NovelFilter{Limit: 2}, []string{"Barred", "Free"}},
		{staff.NovelFilter{State: novel.Pending}, nil},
	} {
		if c.filter.Limit == 0 {
			c.filter.Limit = 10
		}
		list := testdb.Must(s.ListNovels(t.Context(), c.filter))(t)
		var got []string
		for _, n := range list {
			got = append(got, n.Title)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.filter, diff)
		}
	}
}

// TestIdentifierOfSomethingElse: a command with the id of another kind of stream finds and stores nothing.
func TestIdentifierOfSomethingElse(t *testing.T) {
	t.Parallel()
	s := setup(t)
	novelID := imported(t, s, "Genji", novel.Approved)
	stored := func() int { return testdb.Value[int](t, s.Pool, `SELECT count(*) FROM events`) }
	before := stored()
	for name, tc := range map[string]struct {
		do   func() error
		want error
	}{
		"key of a novel": {
			func() error { _, _, err := s.IssueKey(t.Context(), novelID, 0); return err }, principal.ErrNotFound,
		},
		"settings of a novel": {func() error {
			_, err := s.ChangeIntegration(t.Context(), novelID, principal.Change{Review: new(true)})
			return err
		}, principal.ErrNotFound},
		"hiding a novel": {
			func() error { _, err := s.HidePost(t.Context(), novelID, "r"); return err }, post.ErrNotFound,
		},
		"showing a novel as post": {func() error { _, err := s.Post(t.Context(), novelID); return err }, post.ErrNotFound},
	} {
		if err := tc.do(); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	if after := stored(); after != before {
		t.Errorf("%d events were stored", after-before)
	}
}

// TestLongNovel: a novel with very many updates does not slow staff down, and its history is limited.
func TestLongNovel(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const updates = 150
	id := imported(t, s, "Genji", novel.Approved)
	update(t, s, id, 2, updates)
	var read rows
	config := s.Pool.Config()
	config.ConnConfig.Tracer = &read
	pool := testdb.Must(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(pool.Close)
	traced := &staff.Staff{Pool: pool, Actor: s.Actor, Now: s.Now}
	if n, err := traced.RejectByID(t.Context(), id, "spam"); err != nil || n.State != novel.Rejected {
		t.Fatalf("%+v, %v", n, err)
	}
	if n := read.n.Load(); n > 20 || n == 0 {
		t.Errorf("%d rows were read for one decision", n)
	}
	found, err := s.NovelWithHistory(t.Context(), id)
	history := found.History
	if err != nil || len(history) != 100 || history[99].Type != "novel.rejected.v1" ||
		history[0].Version != updates+2-99 {
		t.Errorf("the history has %d events, the first is %+v, %v", len(history), history[0], err)
	}
	if n, err := s.ApproveByID(t.Context(), id, "no spam"); err != nil || n.Author != fmt.Sprint("author ", updates+1) {
		t.Errorf("after the updates: %+v, %v", n, err)
	}
}

// update appends a partner's updates of a novel.
func update(t *testing.T, s *staff.Staff, id uuid.UUID, version, count int) {
	t.Helper()
	recorded := make([]events.Recorded, count)
	for i := range recorded {
		recorded[i] = events.Recorded{
			StreamType: events.NovelStream, StreamID: id, StreamVersion: version + i, ID: fmt.Sprint("update ", version+i),
			Source: events.NovelsSource(partner),
			Event:  events.NovelUpdated{Author: new(fmt.Sprint("author ", version+i))},
		}
	}
	appendAll(t, s, recorded...)
}

// rows counts the rows that a pool reads.
type rows struct{ n atomic.Int64 }

// TraceQueryStart implements pgx.QueryTracer.
func (*rows) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (r *rows) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	r.n.Add(data.CommandTag.RowsAffected())
}

// TestManyNovels: a page examines a bounded number of titles, and the next one goes on after them.
func TestManyNovels(t *testing.T) {
	t.Parallel()
	s := setup(t)
	testdb.Exec(t, s.Pool, `INSERT INTO title_lookup (folded_title, novel_id, slug, title, state, owner_id, stream_version, details)
SELECT 'n' || i, gen_random_uuid(), 'n' || i, 'N' || i, 'approved', $1, 1, '{}' FROM generate_series(1, 20000) AS i`, partner)
	testdb.Must(s.RejectNovel(t.Context(), "Spam", "spam"))(t)
	imported(t, s, "Zen", novel.Pending)
	f := staff.NovelFilter{State: novel.Rejected, Limit: 2}
	first := testdb.Must(s.NovelsPage(t.Context(), f))(t)
	f.After = first.Next
	second := testdb.Must(s.NovelsPage(t.Context(), f))(t)
	if len(first.Items) != 0 || first.Next != "n9999" || len(second.Items) != 1 || second.Next != "" {
		t.Errorf("%+v, %+v", first, second)
	}
	f.After = ""
	all := testdb.Must(s.ListNovels(t.Context(), f))(t)
	waiting := testdb.Must(s.NovelsPage(t.Context(), staff.NovelFilter{State: novel.Pending, Limit: 2}))(t)
	if len(all) != 1 || len(waiting.Items) != 1 || waiting.Next != "" {
		t.Errorf("%+v, %+v", all, waiting)
	}
}
