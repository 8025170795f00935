// Package post decides on the import, the changes and the moderation of a comment.
package post

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"novelgate/aggregates/author"
	"novelgate/aggregates/novel"
	"novelgate/events"
)

// ErrNovelNotFound refuses a comment whose title matches no published or approved novel.
var ErrNovelNotFound = errors.New("no published or approved novel matches the title")

// The reasons for ErrNovelNotFound where the title is known.
var (
	// ErrNovelPending is that of a title whose novel waits for approval.
	ErrNovelPending = fmt.Errorf("%w: the novel is pending", ErrNovelNotFound)
	// ErrNovelRejected is that of a title that staff rejected.
	ErrNovelRejected = fmt.Errorf("%w: staff rejected the title", ErrNovelNotFound)
)

// Import is a partner's command to add one comment to a novel's discussion.
type Import struct {
	IntegrationID uuid.UUID
	Comment       events.Comment
	ChapterNumber jsontext.Value // exact decimal; nil for a novel-level comment
	WrittenAt     time.Time
	NamesParent   bool
}

// Parent is the post that a comment names as its parent. The zero Parent means that the post is unknown.
type Parent struct {
	PostID   uuid.UUID
	ThreadID uuid.UUID
}

// Into decides an import into the thread of a novel. If threadID is uuid.Nil, the comment opens the thread, and opens
// is true. A comment whose parent is not in this thread is stored as a top-level comment (SPEC 3, rule 5).
func (cmd Import) Into(
	n novel.Novel, threadID uuid.UUID, parent Parent,
) (imported events.PostImported, opens bool, err error) {
	switch {
	case n.State == novel.Pending:
		return events.PostImported{}, false, ErrNovelPending
	case n.State == novel.Rejected:
		return events.PostImported{}, false, ErrNovelRejected
	case !n.Open():
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
	imported.ParentLost = cmd.NamesParent && imported.ParentPostID == nil
	return imported, opens, nil
}

// CreatesNovel reports whether a comment on an unknown title creates the novel: only when its integration may create
// novels and is not under review.
func CreatesNovel(canCreateNovels, review bool) bool { return canCreateNovels && !review }

// State says whether readers see a comment.
type State string

// States.
const (
	Visible State = "visible"
	Hidden  State = "hidden"
	Gone    State = "withdrawn" // for good
)

// Why a comment is hidden.
const (
	Individually = "post"   // by a decision about it
	WithAuthor   = "author" // with all comments of its author up to a time
)

// ErrNotFound is returned for a comment that was never imported.
var ErrNotFound = errors.New("no such post")

// The reasons why a comment cannot change any more.
var (
	ErrWithdrawn = errors.New("the comment was withdrawn by its partner")
	ErrErased    = errors.New("the comment was erased with its author")
)

// TransitionError refuses a move that the states do not allow.
type TransitionError struct{ From, To State }

func (e *TransitionError) Error() string {
	if e.From == e.To {
		return fmt.Sprintf("the post is %s already", e.To)
	}
	return fmt.Sprintf("a post that is %s cannot become %s", e.From, e.To)
}

// Post is the state for decisions. The zero Post does not exist.
type Post struct {
	Imported    events.PostImported
	ReceivedAt  time.Time
	Text        *events.Comment   // the latest; nil once erased
	Edited      events.PostEdited // the last one in the log, which has the state after all; zero: none
	Withdrawn   bool
	Hidden      bool      // individually
	Reason      string    // of the latest decision about this post
	ModeratedAt time.Time // when that decision was recorded; zero: none
	Reports     int       // since the latest decision
	Version     int       // of the stream

	exists bool
}

// Fold returns the post after the events of its stream, oldest first. The events must be read from the log, with
// RecordedAt set.
func Fold(history []events.Recorded) Post {
	var p Post
	for i := range history {
		p = p.Apply(history[i].Event, history[i].RecordedAt)
	}
	return p
}

// Apply returns the post after one more event.
func (p Post) Apply(event events.Event, recordedAt time.Time) Post {
	p.Version++
	switch e := event.(type) {
	case events.PostImported:
		p.Imported, p.Text, p.ReceivedAt, p.exists = e, e.Comment, recordedAt, true
	case events.PostEdited:
		if p.Edited = e; e.NewText {
			p.Text = e.Comment
		}
	case events.PostWithdrawn:
		p.Withdrawn, p.Reports = true, 0
	case events.PostReported:
		p.Reports += e.Reports
	case events.PostReportsDismissed:
		p.Reports = 0
	case events.PostHidden:
		p.Hidden, p.Reason, p.ModeratedAt, p.Reports = true, e.Reason, recordedAt, 0
	case events.PostRestored:
		p.Hidden, p.Reason, p.ModeratedAt, p.Reports = false, e.Reason, recordedAt, 0
	default: // no event of this stream
	}
	return p
}

// Exists reports whether the comment was ever imported.
func (p Post) Exists() bool { return p.exists }

// Visibility is whether readers see a post, and why not.
type Visibility struct {
	State  State
	By     string // Individually or WithAuthor; "" unless hidden
	Reason string // "" unless hidden
}

// Visibility returns whether readers see the post, from the decisions about the post and about its author. A post
// hidden individually stays hidden until it is restored. A post restored after HidePosts of its author is visible. The
// database function post_is_hidden implements the same rule.
func (p Post) Visibility(a author.Author) Visibility {
	until := a.PostsHiddenUntil
	switch {
	case p.Withdrawn:
		return Visibility{State: Gone}
	case p.Hidden:
		return Visibility{Hidden, Individually, p.Reason}
	case !until.IsZero() && !until.Before(p.ReceivedAt) && !p.ModeratedAt.After(until):
		return Visibility{Hidden, WithAuthor, a.HiddenReason}
	default:
		return Visibility{State: Visible}
	}
}

// Hide hides a post individually: it stays hidden when the author's posts are restored.
func (p Post) Hide(reason string) (events.Event, error) {
	switch {
	case p.Withdrawn:
		return nil, &TransitionError{Gone, Hidden}
	case p.Hidden:
		return nil, &TransitionError{Hidden, Hidden}
	}
	return events.PostHidden{Reason: reason}, nil
}

// Restore makes a hidden post visible, also one that was hidden with all posts of its author.
func (p Post) Restore(a author.Author, reason string) (events.Event, error) {
	switch {
	case p.Withdrawn:
		return nil, &TransitionError{Gone, Visible}
	case p.Visibility(a).State == Visible:
		return nil, &TransitionError{Visible, Visible}
	}
	return events.PostRestored{Reason: reason}, nil
}

// ErrNotReported refuses to dismiss reports of a post without any since the latest decision about it.
var ErrNotReported = errors.New("no report of the post waits for a decision")

// DismissReports finds the reports since the latest decision unfounded.
func (p Post) DismissReports(reason string) (events.Event, error) {
	if p.Reports == 0 {
		return nil, ErrNotReported
	}
	return events.PostReportsDismissed{Reason: reason}, nil
}
