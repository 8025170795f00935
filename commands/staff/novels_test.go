package staff_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"novelgate/aggregates/novel"
	"novelgate/commands/staff"
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
		"approve an unknown title": {s.ApproveNovel, "Nobody wrote this", "why", staff.ErrNovelNotFound},
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
	if _, err := s.Novel(t.Context(), "Nobody wrote this"); !errors.Is(err, staff.ErrNovelNotFound) {
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
