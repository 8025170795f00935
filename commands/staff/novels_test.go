package staff_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/aggregates/novel"
	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/title"
)

func TestPublishAnUnknownTitle(t *testing.T) {
	t.Parallel()
	s := setup(t)
	got, err := s.PublishNovel(t.Context(), "  The   Tale of Genji ", "")
	if err != nil {
		t.Fatal(err)
	}
	want := staff.Novel{
		NovelID: events.NovelID("the tale of genji"), Slug: "the-tale-of-genji", Title: "The Tale of Genji",
		Author: "Unknown",
		Genres: []string{}, Owner: staff.Host, State: novel.Published, FoldedTitle: "the tale of genji",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again, err := s.Novel(t.Context(), "THE TALE OF GENJI")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, again); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	var refused *novel.TransitionError
	if _, err := s.PublishNovel(t.Context(), "the tale of genji", ""); !errors.As(err, &refused) {
		t.Errorf("a second time: %v", err)
	}
}

func TestPublishAdopts(t *testing.T) {
	t.Parallel()
	s := setup(t)
	id := imported(t, s, "Genji", novel.Approved)
	before, err := s.Novel(t.Context(), "genji")
	if err != nil || before.Owner != partner.String() || before.State != novel.Approved {
		t.Fatalf("before %+v, %v", before, err)
	}
	got, err := s.PublishNovel(t.Context(), "GENJI", "licensed")
	if err != nil {
		t.Fatal(err)
	}
	want := before
	want.Owner, want.State = staff.Host, novel.Published
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if list := stream(t, s, id); len(list) != 2 || list[1] != events.Event(events.NovelPublished{Reason: "licensed"}) {
		t.Errorf("events %+v", list)
	}
}

func TestModerate(t *testing.T) {
	t.Parallel()
	s := setup(t)
	imported(t, s, "Genji", novel.Pending)
	for _, step := range []struct {
		do   func(context.Context, string, string) (staff.Novel, error)
		want novel.State // "": refused
	}{
		{s.RejectNovel, novel.Rejected},
		{s.RejectNovel, ""},
		{s.PublishNovel, ""},
		{s.ApproveNovel, novel.Approved},
		{s.ApproveNovel, ""},
		{s.RejectNovel, novel.Rejected},
		{s.ApproveNovel, novel.Approved},
		{s.PublishNovel, novel.Published},
		{s.RejectNovel, ""},
		{s.ApproveNovel, ""},
	} {
		before, err := s.Novel(t.Context(), "Genji")
		if err != nil {
			t.Fatal(err)
		}
		got, err := step.do(t.Context(), " genji ", "why")
		if step.want == "" {
			var refused *novel.TransitionError
			if !errors.As(err, &refused) || refused.From != before.State {
				t.Errorf("from %s: %v", before.State, err)
			}
			continue
		}
		if err != nil || got.State != step.want {
			t.Errorf("from %s: %s, %v; want %s", before.State, got.State, err, step.want)
		}
	}
}

func TestModerateRefusals(t *testing.T) {
	t.Parallel()
	s := setup(t)
	imported(t, s, "Genji", novel.Approved)
	for name, c := range map[string]struct {
		do            func(context.Context, string, string) (staff.Novel, error)
		title, reason string
		want          error
	}{
		"approve an unknown title": {s.ApproveNovel, "Nobody wrote this", "why", staff.ErrNovelNotFound},
		"reject an empty title":    {s.RejectNovel, " ", "why", staff.ErrTitleInvalid},
		"approve an empty title":   {s.ApproveNovel, "", "why", staff.ErrTitleInvalid},
		"reject with NUL":          {s.RejectNovel, "Genji", "a\x00b", staff.ErrReasonInvalid},
		"publish with bad UTF-8":   {s.PublishNovel, "Genji", "a\xffb", staff.ErrReasonInvalid},
		"approve without a reason": {s.ApproveNovel, "Genji", "", staff.ErrReasonRequired},
		"reject without a reason":  {s.RejectNovel, "Genji", "", staff.ErrReasonRequired},
		"approve with a blank one": {s.ApproveNovel, "Genji", " \t\n", staff.ErrReasonRequired},
		"reject with a blank one":  {s.RejectNovel, "Genji", "\u3000 ", staff.ErrReasonRequired},
		"publish an empty title":   {s.PublishNovel, " \t", "", staff.ErrTitleInvalid},
		"publish a long title":     {s.PublishNovel, strings.Repeat("é", title.MaxLen+1), "", staff.ErrTitleInvalid},
	} {
		if _, err := c.do(t.Context(), c.title, c.reason); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := s.PublishNovel(t.Context(), strings.Repeat("é", title.MaxLen), ""); err != nil {
		t.Errorf("the longest title: %v", err)
	}
	if _, err := s.Novel(t.Context(), "Nobody wrote this"); !errors.Is(err, staff.ErrNovelNotFound) {
		t.Errorf("show: %v", err)
	}
}

// TestSlugsClash: titles that differ may spell the same slug.
func TestSlugsClash(t *testing.T) {
	t.Parallel()
	s := setup(t)
	slugs := map[string]string{}
	for _, spelled := range []string{"Genji", "Genji!", "Genji?", "¡Genji!", "🎉", "🎉🎉"} {
		got, err := s.PublishNovel(t.Context(), spelled, "")
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := slugs[got.Slug]; taken || got.Slug == "" {
			t.Errorf("%s and %s share %q", spelled, other, got.Slug)
		}
		slugs[got.Slug] = spelled
	}
	if slugs["genji"] != "Genji" {
		t.Errorf("slugs %v", slugs)
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
			got, err := s.PublishNovel(t.Context(), spelled, "")
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

// TestConflictingModeration: of two who decide on one state at once one wins, and the other is told how it stands now.
func TestConflictingModeration(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for round := range 10 {
		spelled := "Genji " + strings.Repeat("I", round+1)
		id := imported(t, s, spelled, novel.Approved)
		actions := []func(context.Context, string, string) (staff.Novel, error){
			s.PublishNovel, s.RejectNovel, s.PublishNovel, s.RejectNovel,
		}
		outcomes := make([]error, len(actions))
		var wg sync.WaitGroup
		for i, act := range actions {
			wg.Go(func() { _, outcomes[i] = act(t.Context(), spelled, "why") })
		}
		wg.Wait()
		won := 0
		for _, err := range outcomes {
			var refused *novel.TransitionError
			if err == nil {
				won++
			} else if !errors.As(err, &refused) {
				t.Errorf("got %v, want a TransitionError", err)
			}
		}
		if list := stream(t, s, id); won != 1 || len(list) != 2 {
			t.Errorf("%d have won, %d events", won, len(list))
		}
	}
}

func TestPublishedByOne(t *testing.T) {
	t.Parallel()
	s := setup(t)
	outcomes := make([]error, 5)
	var wg sync.WaitGroup
	for i := range outcomes {
		wg.Go(func() { _, outcomes[i] = s.PublishNovel(t.Context(), "Genji", "") })
	}
	wg.Wait()
	won := 0
	for _, err := range outcomes {
		var refused *novel.TransitionError
		if err == nil {
			won++
		} else if !errors.As(err, &refused) {
			t.Errorf("got %v, want a TransitionError", err)
		}
	}
	if list := stream(t, s, events.NovelID("genji")); won != 1 || len(list) != 1 {
		t.Errorf("%d have won, %d events", won, len(list))
	}
}

func TestNovelsAreListed(t *testing.T) {
	t.Parallel()
	s := setup(t)
	if list, err := s.ListNovels(t.Context(), staff.NovelFilter{Limit: 10}); err != nil || list == nil || len(list) != 0 {
		t.Errorf("list %#v, %v; want an empty one", list, err)
	}
	imported(t, s, "Charlie", novel.Pending)
	imported(t, s, "alpha", novel.Approved)
	imported(t, s, "Bravo", novel.Approved)
	for name, c := range map[string]struct {
		state novel.State
		limit int
		want  []string
	}{
		"all": {"", 10, []string{"alpha", "Bravo", "Charlie"}}, "some": {"", 2, []string{"alpha", "Bravo"}},
		"approved": {novel.Approved, 10, []string{"alpha", "Bravo"}}, "rejected": {novel.Rejected, 10, nil},
	} {
		list, err := s.ListNovels(t.Context(), staff.NovelFilter{State: c.state, Limit: c.limit})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range list {
			got = append(got, n.Title)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
