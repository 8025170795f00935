package e2e_test

import (
	"strings"
	"testing"
)

func TestCommentsFindTheNovelInAnySpelling(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	owner, other := s.NewPartner(t), s.NewPostsPartner(t)
	title := Unique("Der Große Ödipus")
	owner.Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)
	threads := map[string]bool{}
	for _, spelling := range []string{
		title, strings.ToUpper(title), "  " + strings.ReplaceAll(title, " ", " \t") + "\n",
		strings.ReplaceAll(title, "ö", "o\u0308"),
	} {
		threads[other.Import(t, Key(), Comment(spelling)).WantPost(t, 201).ThreadID] = true
	}
	if len(threads) != 1 {
		t.Errorf("%d threads, want 1", len(threads))
	}
}

func TestStaffFindTheNovelInAnySpelling(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	title := Unique("Straße")
	created := s.NewPartner(t).Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)
	rejected := s.Moderate(t, "reject", "  "+strings.ToUpper(title))
	if rejected.NovelID != created.NovelID || rejected.Novel != title {
		t.Errorf("rejected %+v, want %s with its first spelling", rejected, created.NovelID)
	}
}
