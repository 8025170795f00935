package e2e_test

import (
	"testing"
)

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
