package e2e_test

import (
	"testing"

	"github.com/google/uuid"
)

func TestOneThreadPerNovel(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	owner, other := s.NewPartner(t), s.NewPostsPartner(t)
	first, second := Unique("First"), Unique("Second")
	owner.Upsert(t, Key(), Fields{"novel": first}).WantNovel(t, 201)
	s.Moderate(t, "publish", second)

	threads, posts := map[string]map[string]bool{first: {}, second: {}}, map[string]bool{}
	for _, p := range []*Partner{owner, other, owner} {
		for _, title := range []string{first, second} {
			response := p.Import(t, Key(), Comment(title))
			response.WantReplayed(t, false, false)
			post := response.WantPost(t, 201)
			if !post.Created || post.ParentPostID != nil {
				t.Errorf("post %+v, want created at the top level", post)
			}
			if _, err := uuid.Parse(post.PostID); err != nil || posts[post.PostID] {
				t.Errorf("post ID %s, want a new UUID: %v", post.PostID, err)
			}
			threads[title][post.ThreadID], posts[post.PostID] = true, true
		}
	}
	for title, found := range threads {
		if len(found) != 1 {
			t.Errorf("%s has %d threads, want 1", title, len(found))
		}
		for thread := range threads[first] {
			if title == second && found[thread] {
				t.Error("two novels share a thread")
			}
		}
	}
}

func TestCommentOnAnUnknownTitleCreatesTheNovel(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p, other := s.NewPartner(t), s.NewPartner(t)
	title := Unique("By a comment")
	post := p.Import(t, "k", Comment(title)).WantPost(t, 201)
	wantStored(t, s, StoredNovel{Novel: title, Author: "Unknown", Owner: p.IntegrationID, State: "approved"})

	if foreign := other.Upsert(t, Key(), everything(title)).WantNovel(t, 200); foreign.Updated ||
		foreign.Canonical {
		t.Errorf("another integration's upsert: %+v, want neither updated nor canonical", foreign)
	}
	upsert := p.Upsert(t, "k", everything(title)) // the key of the comment is free for novels
	upsert.WantReplayed(t, false, false)
	if novel := upsert.WantNovel(t, 200); !novel.Updated {
		t.Errorf("own upsert: %+v, want updated", novel)
	}
	wantStored(t, s, stored(title, p.IntegrationID))
	if got := other.Import(t, Key(), Comment(title)).WantPost(t, 201).ThreadID; got != post.ThreadID {
		t.Errorf("thread %s, want %s", got, post.ThreadID)
	}
}

func TestCommentOnAnUnknownTitleWithoutTheCapability(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewPostsPartner(t)
	title := Unique("Nobody's")
	for range 2 {
		p.Import(t, "k", Comment(title)).WantProblem(t, 404, "novel_not_found")
	}
	s.Refused(t, "novel", "show", title)

	s.Moderate(t, "publish", title)
	response := p.Import(t, "k", Comment(title)) // the refusals have not used the key
	response.WantReplayed(t, false, false)
	response.WantPost(t, 201)
}
