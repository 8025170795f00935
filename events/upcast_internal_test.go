package events

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// TestUpcastersChain is internal: no event has needed an upcaster yet, so it uses its own registry. The personal part
// goes with the data.
func TestUpcastersChain(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	rename := func(to, old, replacement string) func(Stored) (Stored, error) {
		return func(s Stored) (Stored, error) {
			s.Type, s.Data = to, []byte(strings.ReplaceAll(string(s.Data), old, replacement))
			return s, nil
		}
	}
	r.upcasters["post.imported.v0"] = rename("post.imported.v0b", `"chapter"`, `"chapterNo"`)
	r.upcasters["post.imported.v0b"] = rename("post.imported.v1", `"chapterNo"`, `"chapterNumber"`)

	for _, stored := range []Stored{
		{Type: "post.imported.v0", Data: []byte(`{"chapter":7}`)},
		{Type: "post.imported.v0b", Data: []byte(`{"chapterNo":7}`)},
		{Type: "post.imported.v1", Data: []byte(`{"chapterNumber":7}`)},
	} {
		for personal, want := range map[string]*Comment{`{"content":"c"}`: {Content: "c"}, "": nil} {
			if personal != "" {
				stored.Personal = []byte(personal)
			} else {
				stored.Personal = nil
			}
			got, err := r.decode(stored)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Event(PostImported{ChapterNumber: jsontext.Value("7"), Comment: want}), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", stored.Type, diff)
			}
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
