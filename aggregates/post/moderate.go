package post

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"novelgate/aggregates/author"
	"novelgate/events"
)

// State is whether readers see a comment.
type State string

// States.
const (
	Visible State = "visible"
	Hidden  State = "hidden"
)

// What a comment is hidden by.
const (
	ByItself    = "post"
	ByItsAuthor = "author" // with all others that they had written by then
)

// ErrNotFound is returned for a comment that was never imported.
var ErrNotFound = errors.New("no such post")

// TransitionError refuses a move that the states do not allow.
type TransitionError struct{ From, To State }

func (e *TransitionError) Error() string {
	return fmt.Sprintf("a post that is %s cannot become %s", e.From, e.To)
}

// Post is the state that decisions are taken on. The zero Post does not exist.
type Post struct {
	Imported    events.PostImported
	ReceivedAt  time.Time
	Hidden      bool      // by itself
	Reason      string    // of the latest decision about the post by itself
	ModeratedAt time.Time // when that was recorded; zero when there was none

	exists bool
}

// Fold returns the post after the events of its stream, oldest first and read back from the log.
func Fold(history []events.Recorded) Post {
	var p Post
	for _, recorded := range history {
		switch e := recorded.Event.(type) {
		case events.PostImported:
			p.Imported, p.ReceivedAt, p.exists = e, recorded.RecordedAt, true
		case events.PostHidden:
			p.Hidden, p.Reason, p.ModeratedAt = true, e.Reason, recorded.RecordedAt
		case events.PostRestored:
			p.Hidden, p.Reason, p.ModeratedAt = false, e.Reason, recorded.RecordedAt
		default: // no event of this stream
		}
	}
	return p
}

// Exists reports whether the comment was ever imported.
func (p Post) Exists() bool { return p.exists }

// AuthorID returns who wrote the post; it is false once the comment was erased.
func (p Post) AuthorID() (uuid.UUID, bool) {
	if p.Imported.Comment == nil {
		return uuid.Nil, false
	}
	return events.AuthorID(p.Imported.IntegrationID, p.Imported.Comment.ExternalUUID), true
}

// Standing is whether readers see a post.
type Standing struct {
	State  State
	By     string // ByItself or ByItsAuthor; "" when visible
	Reason string // "" when visible
}

// Standing returns whether readers see the post, given what was decided about its author. The function post_is_hidden
// of the database says the same. What was decided last holds: a post that was restored after all of its author's were
// hidden is visible.
func (p Post) Standing(by author.Author) Standing {
	until := by.PostsHiddenUntil
	switch {
	case p.Hidden:
		return Standing{Hidden, ByItself, p.Reason}
	case !until.IsZero() && !until.Before(p.ReceivedAt) && !p.ModeratedAt.After(until):
		return Standing{Hidden, ByItsAuthor, by.HiddenReason}
	default:
		return Standing{State: Visible}
	}
}

// Hide hides a post by itself: it stays hidden when all of its author's are restored.
func (p Post) Hide(reason string) (events.Event, error) {
	if p.Hidden {
		return nil, &TransitionError{Hidden, Hidden}
	}
	return events.PostHidden{Reason: reason}, nil
}

// Restore makes a hidden post visible, also one that is hidden only because all of its author's were.
func (p Post) Restore(by author.Author, reason string) (events.Event, error) {
	if p.Standing(by).State == Visible {
		return nil, &TransitionError{Visible, Visible}
	}
	return events.PostRestored{Reason: reason}, nil
}
