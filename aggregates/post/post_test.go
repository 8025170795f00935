package post_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/aggregates/author"
	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/events"
)

func TestImport(t *testing.T) {
	t.Parallel()
	threadID, parentID := events.ThreadID(uuid.UUID{2}), uuid.UUID{4}
	cmd := post.Import{
		IntegrationID: uuid.UUID{1}, Comment: events.Comment{ExternalUUID: "u", Username: "n", Content: "c"},
		ChapterNumber: jsontext.Value("1.5"), WrittenAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	lost := func(imported *events.PostImported) *events.PostImported {
		imported.ParentLost = true
		return imported
	}
	imported := func(parent *uuid.UUID) *events.PostImported {
		return &events.PostImported{
			IntegrationID: uuid.UUID{1}, NovelID: uuid.UUID{2}, ThreadID: threadID, ParentPostID: parent,
			ChapterNumber: jsontext.Value("1.5"), WrittenAt: cmd.WrittenAt, Comment: &cmd.Comment,
		}
	}
	for name, c := range map[string]struct {
		state  novel.State
		opens  bool // the novel has no thread yet
		parent post.Parent
		then   *events.PostImported // nil: refused with err
		err    error
	}{
		"on an approved novel": {state: novel.Approved, then: imported(nil)},
		"first on its novel":   {state: novel.Approved, opens: true, then: imported(nil)},
		"on a published novel": {state: novel.Published, then: imported(nil)},
		"on a pending novel":   {state: novel.Pending, err: post.ErrNovelPending},
		"on a rejected novel":  {state: novel.Rejected, err: post.ErrNovelRejected},
		"on an unknown novel":  {state: "", err: post.ErrNovelNotFound},
		"reply in this thread": {
			state: novel.Approved, parent: post.Parent{PostID: parentID, ThreadID: threadID}, then: imported(&parentID),
		},
		"reply to a post in another thread": {
			state: novel.Approved, parent: post.Parent{PostID: parentID, ThreadID: uuid.UUID{8}}, then: lost(imported(nil)),
		},
		"reply to nothing, though threads fit": {
			state: novel.Approved, parent: post.Parent{ThreadID: threadID}, then: lost(imported(nil)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := cmd
			cmd.NamesParent = strings.HasPrefix(name, "reply")
			thread := threadID
			if c.opens {
				thread = uuid.Nil
			}
			got, opens, err := cmd.Into(novel.Novel{ID: uuid.UUID{2}, Slug: "genji", State: c.state}, thread, c.parent)
			if c.then == nil {
				if err != c.err || !errors.Is(err, post.ErrNovelNotFound) { //nolint:errorlint // ErrNovelPending wraps it
					t.Errorf("got %v, want %v", err, c.err)
				}
				return
			}
			if err != nil || opens != c.opens {
				t.Fatalf("opens the thread: %t, %v", opens, err)
			}
			if diff := cmp.Diff(*c.then, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCreatesNovel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ may, review, want bool }{
		{false, false, false}, {false, true, false}, {true, false, true}, {true, true, false},
	} {
		if got := post.CreatesNovel(c.may, c.review); got != c.want {
			t.Errorf("capability %t, review %t: %t", c.may, c.review, got)
		}
	}
}

func at(minute int) time.Time { return time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC) }

// TestModeration: a comment was received in minute 10; the decisions about it follow in minutes 20, 30, …
func TestModeration(t *testing.T) {
	t.Parallel()
	hidden, restored := events.PostHidden{Reason: "rude"}, events.PostRestored{Reason: "misread"}
	until := func(minute int) author.Author {
		return author.Author{PostsHiddenUntil: at(minute), HiddenReason: "spam"}
	}
	individually, withAuthor := post.Visibility{State: post.Hidden, By: post.Individually, Reason: "rude"},
		post.Visibility{State: post.Hidden, By: post.WithAuthor, Reason: "spam"}
	visible := post.Visibility{State: post.Visible}
	for name, c := range map[string]struct {
		given      []events.Event
		by         author.Author
		visibility post.Visibility
		hide       bool // may be hidden
		restorable bool
	}{
		"untouched":    {nil, author.Author{}, visible, true, false},
		"hidden":       {[]events.Event{hidden}, author.Author{}, individually, false, true},
		"restored":     {[]events.Event{hidden, restored}, author.Author{}, visible, true, false},
		"hidden again": {[]events.Event{hidden, restored, hidden}, author.Author{}, individually, false, true},
		"received before its author's were hidden": {nil, until(15), withAuthor, true, true},
		"received when its author's were hidden":   {nil, until(10), withAuthor, true, true},
		"received after that":                      {nil, until(9), visible, true, false},
		"restored after that":                      {[]events.Event{restored}, until(15), visible, true, false},
		"restored when its author's were hidden":   {[]events.Event{restored}, until(20), withAuthor, true, true},
		"restored, then its author's were hidden":  {[]events.Event{restored}, until(25), withAuthor, true, true},
		"hidden, then its author's, too":           {[]events.Event{hidden}, until(25), individually, false, true},
		"hidden and restored, then its author's":   {[]events.Event{hidden, restored}, until(35), withAuthor, true, true},
		"its author's, then by itself":             {[]events.Event{hidden}, until(15), individually, false, true},
		"its author's, hidden, restored":           {[]events.Event{hidden, restored}, until(15), visible, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			history := []events.Recorded{{Event: events.PostImported{}, RecordedAt: at(10)}}
			for i, event := range c.given {
				history = append(history, events.Recorded{Event: event, RecordedAt: at(10 * (i + 2))})
			}
			p := post.Fold(history)
			if diff := cmp.Diff(c.visibility, p.Visibility(c.by)); diff != "" {
				t.Errorf("visibility (-want +got):\n%s", diff)
			}
			event, err := p.Hide("why")
			check(t, "hide", events.PostHidden{Reason: "why"}, event, err, c.hide, post.Hidden)
			event, err = p.Restore(c.by, "why")
			check(t, "restore", events.PostRestored{Reason: "why"}, event, err, c.restorable, post.Visible)
		})
	}
}

// check fails unless a decision made an event, or refused to move from a state to itself.
func check(t *testing.T, move string, want, got events.Event, err error, legal bool, state post.State) {
	t.Helper()
	if legal {
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", move, err, diff)
		}
		return
	}
	var refused *post.TransitionError
	if got != nil || !errors.As(err, &refused) || refused.From != state || refused.To != state {
		t.Errorf("%s: %+v, %v; want a refusal", move, got, err)
	}
	if want := "the post is " + string(state) + " already"; err != nil && err.Error() != want {
		t.Errorf("%s: %v, want %s", move, err, want)
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	if post.Fold(nil).Exists() || post.Fold([]events.Recorded{{Event: events.ThreadOpened{}}}).Exists() {
		t.Error("a post exists that was never imported")
	}
	imported := events.PostImported{IntegrationID: uuid.UUID{1}, Comment: &events.Comment{ExternalUUID: "u"}}
	p := post.Fold([]events.Recorded{{Event: imported, RecordedAt: at(1)}})
	if !p.Exists() || p.Imported.Comment == nil || !p.ReceivedAt.Equal(at(1)) {
		t.Errorf("%+v", p)
	}
}

// TestWithdrawn: a withdrawn post is neither visible nor hidden, and stays so.
func TestWithdrawn(t *testing.T) {
	t.Parallel()
	visible := post.Fold([]events.Recorded{{Event: events.PostImported{}}})
	for _, p := range []post.Post{visible, visible.Apply(events.PostHidden{}, at(1))} {
		p = p.Apply(events.PostWithdrawn{}, at(2))
		if diff := cmp.Diff(post.Visibility{State: post.Gone}, p.Visibility(author.Author{})); diff != "" {
			t.Errorf("visibility (-want +got):\n%s", diff)
		}
		_, hide := p.Hide("why")
		_, restore := p.Restore(author.Author{}, "why")
		for _, err := range []error{hide, restore} {
			var refused *post.TransitionError
			if !errors.As(err, &refused) || refused.From != post.Gone {
				t.Errorf("%v", err)
			}
		}
	}
}
