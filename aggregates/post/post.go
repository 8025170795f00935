// Package post decides on the import and the moderation of a comment.
package post

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/events"
)

// ErrNovelNotFound refuses a comment whose title matches no published or approved novel.
var ErrNovelNotFound = errors.New("no published or approved novel matches the title")

// Import is a partner's command to add one comment to a novel's discussion.
type Import struct {
	IntegrationID uuid.UUID
	Comment       events.Comment
	ChapterNumber jsontext.Value // exact decimal; nil for a novel-level comment
	WrittenAt     time.Time
}

// Parent is the post that a comment names as its parent. The zero Parent means that the post is unknown.
type Parent struct {
	PostID   uuid.UUID
	ThreadID uuid.UUID
}

// Into decides an import into the thread of a novel. The first comment opens the thread: threadID is uuid.Nil, and
// opens is true. A comment whose parent is not in this thread is stored as a top-level comment (SPEC 3, rule 5).
func (cmd Import) Into(
	n novel.Novel, threadID uuid.UUID, parent Parent,
) (imported events.PostImported, opens bool, err error) {
	if !n.Open() {
		return events.PostImported{}, false, ErrNovelNotFound
	}
	if opens = threadID == uuid.Nil; opens {
		threadID = events.ThreadID(n.ID)
	}
	imported = events.PostImported{
		IntegrationID: cmd.IntegrationID, NovelID: n.ID, ThreadID: threadID,
		ChapterNumber: cmd.ChapterNumber, WrittenAt: cmd.WrittenAt, Comment: &cmd.Comment,
	}
	if parent.PostID != uuid.Nil && parent.ThreadID == threadID {
		imported.ParentPostID = &parent.PostID
	}
	return imported, opens, nil
}

// CreatesNovel reports whether a comment on an unknown title creates the novel: only when its integration may create
// novels and is not under review.
func CreatesNovel(mayCreateNovels, underReview bool) bool { return mayCreateNovels && !underReview }
