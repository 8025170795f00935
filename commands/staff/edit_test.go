package staff_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/aggregates/novel"
	"novelgate/commands/staff"
	"novelgate/events"
)

func TestPublishWithFields(t *testing.T) {
	t.Parallel()
	s := setup(t)
	fields := novel.Fields{
		Author: new("Murasaki"), Synopsis: new("A prince."), CoverURL: new("https://example.com/c"), Language: new("ja"),
		ReadingStatus: new("completed"), Genres: new([]string{"court"}),
	}
	got, err := s.PublishNovel(t.Context(), "Genji", fields, "ours")
	if err != nil {
		t.Fatal(err)
	}
	want := staff.Novel{
		NovelID: events.NovelID("genji"), Slug: "genji", Title: "Genji", Author: "Murasaki", Synopsis: "A prince.",
		CoverURL: "https://example.com/c",
		Genres:   []string{"court"}, Language: "ja", ReadingStatus: "completed", Owner: staff.Host, State: novel.Published,
		FoldedTitle: "genji",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// A partner's novel is adopted and changed in one transaction; what is so already is not recorded.
	id := imported(t, s, "Heike", novel.Pending)
	fields.Author = new("Unknown")
	got, err = s.PublishNovel(t.Context(), "HEIKE", fields, "licensed")
	if err != nil || got.Title != "Heike" || got.Author != "Unknown" || got.Language != "ja" || got.Owner != staff.Host {
		t.Errorf("%+v, %v", got, err)
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
	var transactions int
	if err := s.Pool.QueryRow(t.Context(),
		`SELECT count(DISTINCT transaction_id) FROM events WHERE stream_id = $1 AND stream_version > 1`, id).Scan(
		&transactions); err != nil || transactions != 1 {
		t.Errorf("%d transactions, %v", transactions, err)
	}
	same := imported(t, s, "Sarashina", novel.Approved)
	if _, err := s.PublishNovel(t.Context(), "Sarashina",
		novel.Fields{Author: new("Unknown"), Genres: new([]string{})}, ""); err != nil {
		t.Error(err)
	}
	if list := stream(t, s, same); len(list) != 2 {
		t.Errorf("events %+v", list)
	}
}

func TestEdit(t *testing.T) {
	t.Parallel()
	s := setup(t)
	made, err := s.PublishNovel(t.Context(), "Genji",
		novel.Fields{Language: new("ja"), Genres: new([]string{"court"})}, "")
	if err != nil {
		t.Fatal(err)
	}
	want := made
	want.Author, want.Language, want.Genres = "Murasaki", "", []string{}
	for range 2 { // the second time nothing is left to change
		got, err := s.EditNovel(t.Context(), made.NovelID,
			novel.Fields{Author: new("Murasaki"), Language: new(""), Genres: new([]string{}), Synopsis: new("")}, "typo")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff([]events.Event{
		events.NovelUpdated{Author: new("Murasaki"), Language: new(""), Genres: new([]string{}), Reason: "typo"},
	}, stream(t, s, made.NovelID)[1:]); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}

	pending, approved, rejected := imported(t, s, "One", novel.Pending), imported(t, s, "Two", novel.Approved),
		imported(t, s, "Three", novel.Approved)
	if _, err := s.RejectNovel(t.Context(), "Three", "no"); err != nil {
		t.Fatal(err)
	}
	barred, err := s.RejectNovel(t.Context(), "Four", "no")
	if err != nil {
		t.Fatal(err)
	}
	free, err := s.RejectNovel(t.Context(), "Five", "no")
	if err == nil {
		free, err = s.ApproveNovel(t.Context(), "Five", "yes")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		n    staff.Novel
		want novel.State
	}{
		{staff.Novel{NovelID: pending}, novel.Pending},
		{staff.Novel{NovelID: approved}, novel.Approved},
		{staff.Novel{NovelID: rejected}, novel.Rejected},
		{barred, novel.Rejected},
		{free, novel.Free},
	} {
		before := len(stream(t, s, c.n.NovelID))
		var refused *novel.EditError
		if _, err := s.EditNovel(t.Context(), c.n.NovelID, novel.Fields{Author: new("A")}, ""); !errors.As(err, &refused) ||
			refused.State != c.want {
			t.Errorf("%s: %v", c.want, err)
		}
		if after := len(stream(t, s, c.n.NovelID)); after != before {
			t.Errorf("%s: %d events were stored", c.want, after-before)
		}
	}
}

// TestOwnersAreListed: host, integration and none are told apart.
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
		if _, err := do(); err != nil {
			t.Fatal(err)
		}
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
		list, err := s.ListNovels(t.Context(), c.filter)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range list {
			got = append(got, n.Title)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.filter, diff)
		}
	}
}
