package e2e_test

import (
	"net/http"
	"testing"

	"novelgate/internal/testdb"
)

func TestReviewMode(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewPartner(t, Fields{"review": true})
	title := Unique("Pending")
	p.Upsert(t, Key(), everything(title)).WantNovel(t, 201)
	pending := stored(title, p.IntegrationID)
	pending.State = "pending"
	wantStored(t, s, pending)
	p.Import(t, Key(), Comment(title)).WantProblem(t, 404, "novel_not_found")

	if shown := s.Integration(t, "review", p.IntegrationID, "off"); shown.Review {
		t.Error("review is still on")
	}
	testdb.Eventually(t, "novels are approved from creation again", func() bool {
		free := Unique("Approved")
		p.Upsert(t, Key(), Fields{"novel": free}).WantNovel(t, 201)
		return s.Novel(t, free).State == "approved"
	})
	if shown := s.Integration(t, "review", p.IntegrationID, "on"); !shown.Review {
		t.Error("review is still off")
	}
	testdb.Eventually(t, "comments create no novels any more", func() bool {
		return p.Import(t, Key(), Comment(Unique("No"))).Status == http.StatusNotFound
	})
}

func TestNovelListByState(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	title := Unique("Listed")
	p := s.NewPartner(t, Fields{"review": true})
	p.Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)
	var found bool
	for _, novel := range s.Novels(t, "--state", "pending", "--limit", "10000") {
		if novel.State != "pending" {
			t.Errorf("%s is %s, want pending alone", novel.Novel, novel.State)
		}
		found = found || novel.Novel == title
	}
	if !found {
		t.Errorf("%s is not listed", title)
	}
	if listed := s.Novels(t, "--limit", "1"); len(listed) != 1 {
		t.Errorf("%d novels, want 1", len(listed))
	}
	s.Refused(t, "novel", "list", "--state", "lost")
}
