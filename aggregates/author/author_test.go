package author_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/aggregates/author"
	"novelgate/events"
)

var (
	integrationID = uuid.UUID{1}
	ref           = events.AuthorRef{IntegrationID: integrationID, Author: &events.ExternalAuthor{ExternalUUID: "u"}}
	noon          = time.Date(2026, 1, 2, 12, 0, 0, 123456000, time.UTC)
)

func linked(member string) events.AuthorLinked {
	return events.AuthorLinked{
		IntegrationID: integrationID, Reason: "why", Link: &events.AuthorLink{ExternalUUID: "u", MemberID: member},
	}
}

func given(history ...events.Event) author.Author {
	recorded := make([]events.Recorded, len(history))
	for i, event := range history {
		recorded[i].Event = event
	}
	return author.Fold(ref, recorded)
}

// TestDecisions tests every decision in every relevant state.
func TestDecisions(t *testing.T) {
	t.Parallel()
	var (
		unlinked  = events.AuthorUnlinked{AuthorRef: ref, Reason: "why"}
		blocked   = events.AuthorBlocked{AuthorRef: ref, Reason: "why"}
		unblocked = events.AuthorUnblocked{AuthorRef: ref, Reason: "why"}
		hidden    = events.AuthorPostsHidden{AuthorRef: ref, Until: noon, Reason: "why"}
		restored  = events.AuthorPostsRestored{AuthorRef: ref, Reason: "why"}
		erased    = events.AuthorErased{IntegrationID: integrationID}
	)
	link := func(member string) func(author.Author) ([]events.Event, error) {
		return func(a author.Author) ([]events.Event, error) { return a.Link(member, "why") }
	}
	unlink := func(a author.Author) ([]events.Event, error) { return a.Unlink("why") }
	block := func(a author.Author) ([]events.Event, error) { return a.Block("why") }
	unblock := func(a author.Author) ([]events.Event, error) { return a.Unblock("why") }
	hide := func(a author.Author) ([]events.Event, error) { return a.HidePosts("why", noon) }
	restore := func(a author.Author) ([]events.Event, error) { return a.RestorePosts("why") }
	for name, c := range map[string]struct {
		given   []events.Event
		when    func(author.Author) ([]events.Event, error)
		then    []events.Event
		refused string
	}{
		"link a new author": {nil, link("m"), []events.Event{linked("m")}, ""},
		"link again":        {[]events.Event{linked("m")}, link("m"), nil, ""},
		"link to another":   {[]events.Event{linked("m")}, link("n"), []events.Event{linked("n")}, ""},
		"link after unlink": {
			[]events.Event{linked("m"), unlinked}, link("m"), []events.Event{linked("m")}, "",
		},
		"link the blocked": {[]events.Event{blocked}, link("m"), []events.Event{linked("m")}, ""},
		"link whose link was erased": {
			[]events.Event{events.AuthorLinked{}}, link("m"), []events.Event{linked("m")}, "",
		},
		"unlink":              {[]events.Event{linked("m")}, unlink, []events.Event{unlinked}, ""},
		"unlink a new author": {nil, unlink, nil, "the author is unlinked already"},
		"unlink again": {
			[]events.Event{linked("m"), unlinked}, unlink, nil, "the author is unlinked already",
		},
		"block a new author": {nil, block, []events.Event{blocked}, ""},
		"block again": {
			[]events.Event{blocked}, block, nil, "the author is blocked already",
		},
		"block after unblock":        {[]events.Event{blocked, unblocked}, block, []events.Event{blocked}, ""},
		"unblock":                    {[]events.Event{blocked}, unblock, []events.Event{unblocked}, ""},
		"unblock a new author":       {nil, unblock, nil, "the author is unblocked already"},
		"hide posts of a new author": {nil, hide, []events.Event{hidden}, ""},
		"hide posts again":           {[]events.Event{hidden}, hide, []events.Event{hidden}, ""},
		"restore posts":              {[]events.Event{hidden}, restore, []events.Event{restored}, ""},
		"restore posts of a new author": {
			nil, restore, nil, "the comments of the author are visible already",
		},
		"restore posts again": {
			[]events.Event{hidden, restored}, restore, nil, "the comments of the author are visible already",
		},
		"blocking hides nothing": {
			[]events.Event{blocked}, restore, nil, "the comments of the author are visible already",
		},
		"hiding does not block": {
			[]events.Event{hidden}, unblock, nil, "the author is unblocked already",
		},
		"a block outlives the erasure": {[]events.Event{blocked, erased}, unblock, []events.Event{unblocked}, ""},
		"no link outlives the erasure": {[]events.Event{linked("m"), erased}, link("m"), []events.Event{linked("m")}, ""},
		"nothing to unlink once erased": {
			[]events.Event{linked("m"), erased}, unlink, nil, "the author is unlinked already",
		},
		"no hiding outlives the erasure": {
			[]events.Event{hidden, erased}, restore, nil, "the comments of the author are visible already",
		},
		"events of other streams, skipped": {
			[]events.Event{events.PostHidden{}}, restore, nil, "the comments of the author are visible already",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := c.when(given(c.given...))
			var refused *author.TransitionError
			switch {
			case c.refused == "" && err != nil:
				t.Error(err)
			case c.refused != "" && (!errors.As(err, &refused) || err.Error() != c.refused):
				t.Errorf("got %v, want %q", err, c.refused)
			}
			if diff := cmp.Diff(c.then, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestComment(t *testing.T) {
	t.Parallel()
	blocked, unblocked := events.AuthorBlocked{AuthorRef: ref}, events.AuthorUnblocked{AuthorRef: ref}
	if err := given(blocked).Comment(); !errors.Is(err, author.ErrBlocked) {
		t.Errorf("blocked: %v", err)
	}
	for name, a := range map[string]author.Author{
		"a new author": {}, "unblocked": given(blocked, unblocked), "hidden": given(events.AuthorPostsHidden{Until: noon}),
	} {
		if err := a.Comment(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIdentifiers(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]struct{ uuid, member bool }{
		"u": {true, true}, "a/b": {true, true}, ".": {true, true}, "..": {true, true}, "%2F": {true, true},
		"日本 x":                   {true, true},
		strings.Repeat("é", 255): {true, true}, strings.Repeat("é", 256): {false, false},
		strings.Repeat("x", 32<<10): {false, false},
		"":                          {false, false}, "  \t": {false, false}, "a\x00b": {false, false}, "\xff": {false, false},
		" a ": {true, false}, "a\nb": {true, false}, "\u2028x": {true, false},
	} {
		if _, err := author.Ref(integrationID, value); (err == nil) != want.uuid ||
			err != nil && !errors.Is(err, author.ErrUUIDInvalid) {
			t.Errorf("uuid %.20q: %v", value, err)
		}
		if _, err := given().Link(value, ""); (err == nil) != want.member ||
			err != nil && !errors.Is(err, author.ErrMemberInvalid) {
			t.Errorf("member %.20q: %v", value, err)
		}
	}
}
