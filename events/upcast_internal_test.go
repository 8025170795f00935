package events

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUpcastersChain is internal: no event has needed an upcaster yet, so it uses its own registry.
func TestUpcastersChain(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	rename := func(to, old, replacement string) func(Stored) (Stored, error) {
		return func(s Stored) (Stored, error) {
			s.Type, s.Data = to, []byte(strings.ReplaceAll(string(s.Data), old, replacement))
			return s, nil
		}
	}
	r.upcasters["novel.approved.v0"] = rename("novel.approved.v0b", `"why"`, `"because"`)
	r.upcasters["novel.approved.v0b"] = rename("novel.approved.v1", `"because"`, `"reason"`)

	for _, stored := range []Stored{
		{Type: "novel.approved.v0", Data: []byte(`{"why":"fine"}`)},
		{Type: "novel.approved.v0b", Data: []byte(`{"because":"fine"}`)},
		{Type: "novel.approved.v1", Data: []byte(`{"reason":"fine"}`)},
	} {
		got, err := r.decode(stored)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Event(NovelApproved{Reason: "fine"}), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", stored.Type, diff)
		}
	}
}

func TestUpcasterCarriesThePersonalPart(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	r.upcasters["post.imported.v0"] = func(s Stored) (Stored, error) {
		s.Type = "post.imported.v1"
		return s, nil
	}
	for personal, want := range map[string]*Comment{`{"content":"c"}`: {Content: "c"}, "": nil} {
		stored := Stored{Type: "post.imported.v0", Data: []byte(`{}`)}
		if personal != "" {
			stored.Personal = []byte(personal)
		}
		got, err := r.decode(stored)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Event(PostImported{Comment: want}), got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestUpcasterErrorNamesTheType(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	broken := errors.New("broken")
	r.upcasters["novel.approved.v0"] = func(Stored) (Stored, error) { return Stored{}, broken }
	_, err := r.decode(Stored{Type: "novel.approved.v0"})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "novel.approved.v0") {
		t.Errorf("got %v", err)
	}
}
