package e2e_test

import (
	"strings"
	"testing"
)

func TestQuotedKeyIsThePlainKey(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	for name, forms := range map[string][2]string{
		"quoted first":    {`"evt\"2"`, `evt"2`},
		"space around it": {"evt-5", `  "evt-5" `}, // RFC 9110 makes it no part of the value
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			title := Unique("Quoted")
			first := p.Import(t, forms[0], Comment(title)).WantPost(t, 201)
			request := p.Request(PostsPath, forms[1], Comment(title).JSON(t))
			request.Beyond = name == "space around it"
			response := p.Service.Send(t, request)
			response.WantReplayed(t, true, false)
			if again := response.WantPost(t, 200); again.PostID != first.PostID {
				t.Errorf("post %s, want %s", again.PostID, first.PostID)
			}
			plain := strings.Trim(forms[1], ` "`)
			reply := p.Import(t, Key(), Comment(title).With(Fields{"parent_uuid": plain})).WantPost(t, 201)
			if reply.Parent() != first.PostID {
				t.Errorf("parent %q of a reply, want %s", reply.Parent(), first.PostID)
			}
		})
	}
}

func TestKeysBelongToIntegrationAndOperation(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p, other := s.NewPartner(t), s.NewPartner(t)
	title := Unique("Scoped")
	p.Upsert(t, "k", Fields{"novel": title}).WantNovel(t, 201)
	mine := p.Import(t, "k", Comment(title))
	mine.WantReplayed(t, false, false)
	theirs := other.Import(t, "k", Comment(title))
	theirs.WantReplayed(t, false, false)
	if mine.WantPost(t, 201).PostID == theirs.WantPost(t, 201).PostID {
		t.Error("two integrations share a post because they share a key")
	}
	other.Upsert(t, "k", Fields{"novel": Unique("Scoped too")}).WantNovel(t, 201)
}
