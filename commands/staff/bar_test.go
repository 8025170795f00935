package staff_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/commands/staff"
	"novelgate/events"
)

// TestBar takes a title that nobody has imported through all that can become of it.
func TestBar(t *testing.T) {
	t.Parallel()
	s := setup(t)
	id := events.NovelID("moby dick")
	check := func(got staff.Novel, err error, want staff.Novel) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	want := staff.Novel{
		NovelID: id, Slug: "moby-dick", Title: "Moby Dick", Genres: []string{}, Owner: staff.NoOwner, State: novel.Rejected,
		FoldedTitle: "moby dick",
	}
	got, err := s.RejectNovel(t.Context(), " Moby  Dick ", "no whales")
	check(got, err, want)
	var refused *novel.TransitionError
	if _, err := s.RejectNovel(t.Context(), "MOBY DICK", "again"); !errors.As(err, &refused) ||
		*refused != (novel.TransitionError{From: novel.Rejected, To: novel.Rejected}) {
		t.Errorf("again: %v", err)
	}
	if _, err := s.PublishNovel(t.Context(), "MOBY DICK", novel.Fields{}, ""); !errors.As(err, &refused) ||
		*refused != (novel.TransitionError{From: novel.Rejected, To: novel.Published}) {
		t.Errorf("publish: %v", err)
	}
	want.State = novel.Free
	got, err = s.ApproveNovel(t.Context(), "MOBY DICK", "whales are fine")
	check(got, err, want)
	if _, err := s.ApproveNovel(t.Context(), "moby dick", "again"); !errors.As(err, &refused) ||
		*refused != (novel.TransitionError{From: novel.Free, To: novel.Approved}) {
		t.Errorf("approve a free title: %v", err)
	}
	want.State = novel.Rejected
	got, err = s.RejectNovel(t.Context(), "MOBY DICK", "no, they are not")
	check(got, err, want)
	if _, err := s.ApproveByID(t.Context(), id, "yes, they are"); err != nil {
		t.Error(err)
	}
	want.State, want.Title, want.Author, want.Owner = novel.Published, "MOBY DICK", "Unknown", staff.Host
	got, err = s.PublishNovel(t.Context(), "MOBY DICK", novel.Fields{}, "ours")
	check(got, err, want)
	if diff := cmp.Diff([]events.Event{
		events.NovelBarred{Title: "Moby Dick", Slug: "moby-dick", Reason: "no whales"},
		events.NovelUnbarred{Reason: "whales are fine"},
		events.NovelBarred{Title: "Moby Dick", Slug: "moby-dick", Reason: "no, they are not"},
		events.NovelUnbarred{Reason: "yes, they are"},
		events.NovelCreated{Title: "MOBY DICK", Slug: "moby-dick", Author: "Unknown", State: "published", Reason: "ours"},
	}, stream(t, s, id)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestMovesByID: a title that nobody has heard of has no id.
func TestMovesByID(t *testing.T) {
	t.Parallel()
	s := setup(t)
	unknown := events.NovelID("nobody wrote this")
	for name, move := range map[string]func(context.Context, uuid.UUID, string) (staff.Novel, error){
		"publish": s.PublishByID, "approve": s.ApproveByID, "reject": s.RejectByID,
		"edit": func(ctx context.Context, id uuid.UUID, reason string) (staff.Novel, error) {
			return s.EditNovel(ctx, id, novel.Fields{}, reason)
		},
	} {
		if _, err := move(t.Context(), unknown, "why"); !errors.Is(err, staff.ErrNoSuchNovel) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list := stream(t, s, unknown); len(list) != 0 {
		t.Errorf("events %+v", list)
	}
	barred, err := s.RejectNovel(t.Context(), "Genji", "no")
	if err != nil {
		t.Fatal(err)
	}
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

// TestStaffAtOnce: from each state, two moves at once, several times each. Each move is taken once at most, and whoever
// comes too late is told from where and to where there is no way.
func TestStaffAtOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	type act func(context.Context, string, string) (staff.Novel, error)
	publish := publishing(s)
	for name, c := range map[string]struct {
		given     func(title string)
		one, two  act
		histories []int // how many events there may be behind the given ones
	}{
		"bar twice":       {func(string) {}, s.RejectNovel, s.RejectNovel, []int{1}},
		"publish twice":   {func(string) {}, publish, publish, []int{1}},
		"bar and publish": {func(string) {}, s.RejectNovel, publish, []int{1}},
		"lift twice": {
			func(title string) { _, _ = s.RejectNovel(t.Context(), title, "no") }, s.ApproveNovel, s.ApproveNovel, []int{1},
		},
		"lift and publish": {
			func(title string) { _, _ = s.RejectNovel(t.Context(), title, "no") }, s.ApproveNovel, publish, []int{1, 2},
		},
		"approve and reject, pending": {
			func(title string) { imported(t, s, title, novel.Pending) }, s.ApproveNovel, s.RejectNovel, nil,
		},
		"publish and reject": {
			func(title string) { imported(t, s, title, novel.Approved) }, publish, s.RejectNovel, []int{1},
		},
	} {
		for round := range 4 {
			title := fmt.Sprint(name, " ", round)
			c.given(title)
			id := events.NovelID(title)
			before := len(stream(t, s, id))
			outcomes := make([]error, 6)
			var wg sync.WaitGroup
			for i := range outcomes {
				do := []act{c.one, c.two}[i%2]
				wg.Go(func() { _, outcomes[i] = do(t.Context(), title, "why") })
			}
			wg.Wait()
			won := 0
			for _, err := range outcomes {
				var refused *novel.TransitionError
				if err == nil {
					won++
				} else if !errors.As(err, &refused) {
					t.Errorf("%s: %v", name, err)
				}
			}
			history := stream(t, s, id)[before:]
			if won != len(history) || won == 0 {
				t.Errorf("%s: %d have won, %d events", name, won, len(history))
			}
			if len(c.histories) > 0 && len(history) != c.histories[0] && len(history) != c.histories[len(c.histories)-1] {
				t.Errorf("%s: %+v", name, history)
			}
		}
	}
}
