package post_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

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
		then   *events.PostImported // nil: refused
	}{
		"on an approved novel": {state: novel.Approved, then: imported(nil)},
		"first on its novel":   {state: novel.Approved, opens: true, then: imported(nil)},
		"on a published novel": {state: novel.Published, then: imported(nil)},
		"on a pending novel":   {state: novel.Pending},
		"on a rejected novel":  {state: novel.Rejected},
		"on an unknown novel":  {state: ""},
		"reply in this thread": {
			state: novel.Approved, parent: post.Parent{PostID: parentID, ThreadID: threadID}, then: imported(&parentID),
		},
		"reply to a post in another thread": {
			state: novel.Approved, parent: post.Parent{PostID: parentID, ThreadID: uuid.UUID{8}}, then: imported(nil),
		},
		"reply to nothing, though threads fit": {
			state: novel.Approved, parent: post.Parent{ThreadID: threadID}, then: imported(nil),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			thread := threadID
			if c.opens {
				thread = uuid.Nil
			}
			got, opens, err := cmd.Into(novel.Novel{ID: uuid.UUID{2}, Slug: "genji", State: c.state}, thread, c.parent)
			if c.then == nil {
				if !errors.Is(err, post.ErrNovelNotFound) {
					t.Errorf("got %v, want ErrNovelNotFound", err)
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
