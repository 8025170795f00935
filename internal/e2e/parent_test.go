package e2e_test

import (
	"testing"
)

func TestParentIsACommentOfTheSameIntegrationInTheSameDiscussion(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p, other := s.NewPartner(t), s.NewPartner(t)
	here, elsewhere := Unique("Here"), Unique("Elsewhere")
	parent := p.Import(t, "parent", Comment(here)).WantPost(t, 201)
	quoted := p.Import(t, `"quoted"`, Comment(here)).WantPost(t, 201)
	p.Import(t, "far", Comment(elsewhere)).WantPost(t, 201)
	other.Import(t, "theirs", Comment(here)).WantPost(t, 201)
	p.Upsert(t, "novel", Fields{"novel": here}).WantNovel(t, 200)

	for name, test := range map[string]struct{ parent, want string }{
		"own comment here":             {"parent", parent.PostID},
		"delivered with a quoted key":  {"quoted", quoted.PostID},
		"own comment elsewhere":        {"far", ""},
		"comment of another":           {"theirs", ""},
		"key of a novel":               {"novel", ""},
		"never delivered":              {"never", ""},
		"empty":                        {"", ""},
		"other letter case":            {"PARENT", ""},
		"the post ID instead of a key": {parent.PostID, ""},
		"a prefix of it":               {"paren", ""},
		"not even a possible key":      {"два слова", ""},
		"an injection":                 {"' OR '1'='1", ""},
		"a pattern":                    {"%", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := Key()
			reply := Comment(here).With(Fields{"parent_uuid": test.parent})
			post := p.Import(t, key, reply).WantPost(t, 201)
			if post.Parent() != test.want {
				t.Errorf("parent %q, want %q", post.Parent(), test.want)
			}
			if post.ThreadID != parent.ThreadID {
				t.Errorf("thread %s, want %s", post.ThreadID, parent.ThreadID)
			}
			if replay := p.Import(t, key, reply).WantPost(t, 200); replay.Parent() != test.want {
				t.Errorf("replay has parent %q, want %q", replay.Parent(), test.want)
			}
		})
	}
}

func TestReplyToAReply(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Deep")
	above, parent := "", ""
	for _, key := range []string{"1", "2", "3", "4"} {
		post := p.Import(t, key, Comment(title).With(Fields{"parent_uuid": above})).WantPost(t, 201)
		if post.Parent() != parent {
			t.Errorf("comment %s has parent %q, want %q", key, post.Parent(), parent)
		}
		above, parent = key, post.PostID
	}
}

func TestCommentIsNotItsOwnParent(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	reply := Comment(Unique("Self")).With(Fields{"parent_uuid": "self"})
	for _, status := range []int{201, 200} { // the replay too, when there is a post with this key
		if post := p.Import(t, "self", reply).WantPost(t, status); post.ParentPostID != nil {
			t.Errorf("%d: parent %s, want none", status, post.Parent())
		}
	}
}

func TestParentThatArrivesLater(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Late")
	reply := Comment(title).With(Fields{"parent_uuid": "parent"})
	first := p.Import(t, "reply", reply).WantPost(t, 201)
	if first.ParentPostID != nil {
		t.Fatalf("parent %s before it was delivered", first.Parent())
	}
	parent := p.Import(t, "parent", Comment(title)).WantPost(t, 201)
	if again := p.Import(t, "reply", reply).WantPost(t, 200); again.ParentPostID != nil || again.PostID != first.PostID {
		t.Errorf("the replay is %+v, want the original identifiers", again)
	}
	if next := p.Import(t, "next", reply).WantPost(t, 201); next.Parent() != parent.PostID {
		t.Errorf("the next reply has parent %q, want %s", next.Parent(), parent.PostID)
	}
}
