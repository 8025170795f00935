package events

import (
	"time"

	"github.com/google/uuid"
)

// AuthorRef names the author that an event is about.
type AuthorRef struct {
	IntegrationID uuid.UUID `json:"integrationId"`

	Author *ExternalAuthor `json:"-"` // nil when erased
}

// ExternalAuthor is the erasable part of an event about an author.
type ExternalAuthor struct {
	ExternalUUID string `json:"uuid"` // the partner's identifier of the author
}

func (r AuthorRef) personal() any {
	if r.Author == nil {
		return nil
	}
	return r.Author
}

func (r *AuthorRef) personalTarget() any {
	r.Author = new(ExternalAuthor)
	return r.Author
}

// AuthorLinked records that an author's comments, past and future, are attributed to a member of the host platform.
type AuthorLinked struct {
	IntegrationID uuid.UUID `json:"integrationId"`
	Reason        string    `json:"reason,omitempty"`

	Link *AuthorLink `json:"-"` // nil when erased
}

// AuthorLink is the erasable part of AuthorLinked.
type AuthorLink struct {
	ExternalUUID string `json:"uuid"`     // the partner's identifier of the author
	MemberID     string `json:"memberId"` // the host platform's identifier of the member
}

// Type implements Event.
func (AuthorLinked) Type() string { return "author.linked.v1" }
func (AuthorLinked) isEvent()     {}

func (e AuthorLinked) personal() any {
	if e.Link == nil {
		return nil
	}
	return e.Link
}

func (e *AuthorLinked) personalTarget() any {
	e.Link = new(AuthorLink)
	return e.Link
}

// AuthorUnlinked records that an author's comments are attributed to the partner platform again.
type AuthorUnlinked struct {
	AuthorRef
	Reason string `json:"reason,omitempty"`
}

// Type implements Event.
func (AuthorUnlinked) Type() string { return "author.unlinked.v1" }
func (AuthorUnlinked) isEvent()     {}

// AuthorBlocked records that new comments of an author are refused.
type AuthorBlocked struct {
	AuthorRef
	Reason string `json:"reason"`
}

// Type implements Event.
func (AuthorBlocked) Type() string { return "author.blocked.v1" }
func (AuthorBlocked) isEvent()     {}

// AuthorUnblocked records that an author may comment again.
type AuthorUnblocked struct {
	AuthorRef
	Reason string `json:"reason"`
}

// Type implements Event.
func (AuthorUnblocked) Type() string { return "author.unblocked.v1" }
func (AuthorUnblocked) isEvent()     {}

// AuthorPostsHidden hides the comments of an author that were received up to the time Until; later ones are shown. One
// event hides all of them.
type AuthorPostsHidden struct {
	AuthorRef
	Until  time.Time `json:"until"` // by the clock of the database, like recorded_at; UTC, whole microseconds
	Reason string    `json:"reason"`
}

// Type implements Event.
func (AuthorPostsHidden) Type() string { return "author.posts_hidden.v1" }
func (AuthorPostsHidden) isEvent()     {}

// AuthorPostsRestored records the end of all AuthorPostsHidden before it. Comments hidden individually stay hidden.
type AuthorPostsRestored struct {
	AuthorRef
	Reason string `json:"reason"`
}

// Type implements Event.
func (AuthorPostsRestored) Type() string { return "author.posts_restored.v1" }
func (AuthorPostsRestored) isEvent()     {}

// AuthorErased records the erasure of the author's identity and comments from all earlier events, and from the lines of
// bulk imports: when it is in the log, they are erased. A block stays in force. Later comments of the author are stored
// as usual.
type AuthorErased struct {
	IntegrationID uuid.UUID `json:"integrationId"`
	Reason        string    `json:"reason"`
	Comments      int       `json:"comments"`  // number of erased comments
	Decisions     int       `json:"decisions"` // number of erased staff actions about the author, such as links and blocks
}

// Type implements Event.
func (AuthorErased) Type() string { return "author.erased.v1" }
func (AuthorErased) isEvent()     {}
