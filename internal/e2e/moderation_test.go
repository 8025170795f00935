package e2e_test

import (
	"net/http"
	"testing"

	"novelgate/internal/testdb"
)

func TestRejectedTitleCannotBeImported(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	owner, other := s.NewPartner(t), s.NewPartner(t)
	title := Unique("Rejected")
	owner.Upsert(t, "create", everything(title)).WantNovel(t, 201)
	if rejected := s.Moderate(t, "reject", title); rejected.State != "rejected" {
		t.Errorf("state %s, want rejected", rejected.State)
	}
	for _, p := range []*Partner{owner, other} {
		p.Upsert(t, Key(), Fields{"novel": title}).WantProblem(t, 409, "novel_rejected")
		p.Import(t, Key(), Comment(title)).WantProblem(t, 404, "novel_not_found")
	}
	owner.Upsert(t, "create", everything(title)).WantProblem(t, 409, "novel_rejected")

	refused := Key()
	owner.Upsert(t, refused, Fields{"novel": title, "author": "Later"}).WantProblem(t, 409, "novel_rejected")
	if approved := s.Moderate(t, "approve", title); approved.State != "approved" || approved.Owner != owner.IntegrationID {
		t.Errorf("approved %+v, want the owner's, approved", approved)
	}
	wantStored(t, s, stored(title, owner.IntegrationID))
	replay := owner.Upsert(t, "create", everything(title))
	replay.WantReplayed(t, true, false)
	if novel := replay.WantNovel(t, 200); !novel.Updated || novel.Canonical {
		t.Errorf("replay %+v, want updated", novel)
	}
	retried := owner.Upsert(t, refused, Fields{"novel": title, "author": "Later"})
	retried.WantReplayed(t, false, false) // the refusal has not used the key
	retried.WantNovel(t, 200)
	if shown := s.Novel(t, title); shown.Author != "Later" {
		t.Errorf("author %q, want the one of the retried update", shown.Author)
	}
	other.Import(t, Key(), Comment(title)).WantPost(t, 201)
}

func TestReplayOfANovelRejectedSince(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewPartner(t)
	title := Unique("Rejected since")
	p.Upsert(t, "create", everything(title)).WantNovel(t, 201)
	p.Upsert(t, "update", Fields{"novel": title, "author": "Later"}).WantNovel(t, 200)
	s.Moderate(t, "reject", title)
	for _, test := range []struct {
		key                string
		novel              Fields
		replayed, mismatch bool
	}{
		{"create", everything(title), true, false},
		{"create", everything(title).With(Fields{"author": "Other"}), true, true},
		{"update", Fields{"novel": title, "author": "Later"}, true, false},
		{Key(), everything(title), false, false},
	} {
		response := p.Upsert(t, test.key, test.novel)
		response.WantReplayed(t, test.replayed, test.mismatch)
		if problem := response.WantProblem(t, 409, "novel_rejected"); problem.Retryable {
			t.Error("a declined title is called retryable")
		}
	}
}

func TestAdoptionByTheHost(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	owner := s.NewPartner(t)
	title := Unique("Adopted")
	created := owner.Upsert(t, "create", everything(title)).WantNovel(t, 201)
	thread := owner.Import(t, Key(), Comment(title)).WantPost(t, 201).ThreadID

	adopted := s.Moderate(t, "publish", title)
	if adopted.NovelID != created.NovelID || adopted.Slug != created.Slug || adopted.State != "published" ||
		adopted.Owner != "host" {
		t.Errorf("adopted %+v, want the host's novel %s", adopted, created.NovelID)
	}
	replay := owner.Upsert(t, "create", everything(title))
	replay.WantReplayed(t, true, false)
	update := owner.Upsert(t, Key(), Fields{"novel": title, "author": "Ignored"})
	update.WantReplayed(t, false, false)
	for name, response := range map[string]Response{"replay": replay, "update": update} {
		if novel := response.WantNovel(t, 200); novel.Updated || !novel.Canonical || novel.NovelID != created.NovelID {
			t.Errorf("%s after adoption: %+v, want canonical", name, novel)
		}
	}
	want := stored(title, "host")
	want.State = "published"
	wantStored(t, s, want)
	if got := owner.Import(t, Key(), Comment(title)).WantPost(t, 201).ThreadID; got != thread {
		t.Errorf("thread %s, want %s as before", got, thread)
	}
}

func TestReviewMode(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p, other := s.NewPartner(t, Fields{"review": true}), s.NewPartner(t)
	title := Unique("Pending")
	created := p.Upsert(t, "create", everything(title)).WantNovel(t, 201)
	pending := stored(title, p.IntegrationID)
	pending.State = "pending"
	wantStored(t, s, pending)

	if novel := p.Upsert(t, Key(), Fields{"novel": title, "author": "New"}).WantNovel(t,
		200); !novel.Updated {
		t.Errorf("update of a pending novel: %+v, want updated", novel)
	}
	pending.Author = "New"
	wantStored(t, s, pending)
	if novel := other.Upsert(t, Key(), everything(title)).WantNovel(t, 200); novel.Updated || novel.Canonical {
		t.Errorf("foreign pending novel: %+v, want neither updated nor canonical", novel)
	}
	refused := Key()
	p.Import(t, refused, Comment(title)).WantProblem(t, 404, "novel_not_found")
	other.Import(t, Key(), Comment(title)).WantProblem(t, 404, "novel_not_found")

	unknown := Unique("Never by a comment")
	p.Import(t, Key(), Comment(unknown)).WantProblem(t, 404, "novel_not_found")
	s.Refused(t, "novel", "show", unknown)

	s.Moderate(t, "approve", title)
	p.Import(t, refused, Comment(title)).WantPost(t, 201)
	if replay := p.Upsert(t, "create", everything(title)).WantNovel(t, 200); replay.NovelID != created.NovelID ||
		!replay.Updated {
		t.Errorf("replay %+v, want novel %s, updated", replay, created.NovelID)
	}

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

// TestMovesBetweenStates moves titles that nobody has imported, and moves more than once; TestTransitions tries each
// move.
func TestMovesBetweenStates(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p, reviewed := s.NewPartner(t), s.NewPartner(t, Fields{"review": true})
	for name, test := range map[string]struct {
		begin   *Partner // nil: nobody has created it
		moves   []string // all but the last succeed
		refused bool     // the last does not
		state   string   // in the end
	}{
		"pending to rejected to approved":   {reviewed, []string{"reject", "approve"}, false, "approved"},
		"approved to rejected and back":     {p, []string{"reject", "approve"}, false, "approved"},
		"unknown to published":              {nil, []string{"publish"}, false, "published"},
		"unknown to rejected":               {nil, []string{"reject"}, false, "rejected"},
		"unknown to rejected to free":       {nil, []string{"reject", "approve"}, false, "free"},
		"free to rejected":                  {nil, []string{"reject", "approve", "reject"}, false, "rejected"},
		"free to published":                 {nil, []string{"reject", "approve", "publish"}, false, "published"},
		"free is not approved":              {nil, []string{"reject", "approve", "approve"}, true, "free"},
		"rejected unseen is not published":  {nil, []string{"reject", "publish"}, true, "rejected"},
		"rejected unseen likewise":          {nil, []string{"reject", "reject"}, true, "rejected"},
		"published from the start likewise": {nil, []string{"publish", "reject"}, true, "published"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			title := Unique("Moved")
			if test.begin != nil {
				test.begin.Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)
			}
			last := len(test.moves) - 1
			for _, move := range test.moves[:last] {
				s.Moderate(t, move, title)
			}
			if test.refused {
				if out := s.Refused(t, "novel", test.moves[last], title, "--reason", "test"); out.Code != 1 {
					t.Errorf("exit code %d, want 1", out.Code)
				}
			} else {
				s.Moderate(t, test.moves[last], title)
			}
			if shown := s.Novel(t, title); shown.State != test.state {
				t.Errorf("state %s, want %s", shown.State, test.state)
			}
		})
	}
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
