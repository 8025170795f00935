// Package author decides on staff actions about an author: linking to a member, blocking, hiding all comments, and
// erasure.
package author

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"novelgate/events"
)

// State is the state of an author in one respect.
type State string

// States, two for each respect: attribution, commenting, and the comments received so far.
const (
	Unlinked  State = "unlinked"
	Linked    State = "linked"
	Unblocked State = "unblocked"
	Blocked   State = "blocked"
	Visible   State = "visible"
	Hidden    State = "hidden"
)

// maxIdentifier is the longest identifier of an author or a member, in characters (SPEC 2.3).
const maxIdentifier = 255

// Refusals.
var (
	ErrBlocked     = errors.New("staff of the host platform blocked this author")
	ErrUUIDInvalid = fmt.Errorf("the identifier of an author must have 1 to %d characters of valid UTF-8, none of "+
		"them NUL, and not be blank", maxIdentifier)
	ErrMemberInvalid = fmt.Errorf(
		"the identifier of a member must have 1 to %d printable characters, without spaces around them", maxIdentifier)
)

// TransitionError refuses a move to the state that there is.
type TransitionError struct {
	Subject  string // such as "the author is"
	From, To State
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("%s %s already", e.Subject, e.To)
}

const (
	ofAuthor   = "the author is"
	ofComments = "the comments of the author are"
)

// Ref returns the reference to an author, who may have no comments yet. It refuses with ErrUUIDInvalid an identifier
// that a comment cannot have.
func Ref(integrationID uuid.UUID, externalUUID string) (events.AuthorRef, error) {
	blank := strings.TrimSpace(externalUUID) == ""
	if blank || !utf8.ValidString(externalUUID) || strings.ContainsRune(externalUUID, 0) ||
		utf8.RuneCountInString(externalUUID) > maxIdentifier {
		return events.AuthorRef{}, ErrUUIDInvalid
	}
	return events.AuthorRef{IntegrationID: integrationID, Author: &events.ExternalAuthor{ExternalUUID: externalUUID}}, nil
}

// Author is the state for decisions. The zero Author has no staff decisions.
type Author struct {
	Ref              events.AuthorRef
	MemberID         string    // the member of the host platform; "" when not linked
	Blocked          bool      // comments are refused
	PostsHiddenUntil time.Time // comments received up to this time are hidden; zero: none
	HiddenReason     string    // of staff, for hiding them
}

// Fold returns the author after the events of their stream, oldest first.
func Fold(ref events.AuthorRef, history []events.Recorded) Author {
	a := Author{Ref: ref}
	for _, recorded := range history {
		switch e := recorded.Event.(type) {
		case events.AuthorLinked:
			a.MemberID = ""
			if e.Link != nil {
				a.MemberID = e.Link.MemberID
			}
		case events.AuthorUnlinked:
			a.MemberID = ""
		case events.AuthorBlocked:
			a.Blocked = true
		case events.AuthorUnblocked:
			a.Blocked = false
		case events.AuthorPostsHidden:
			a.PostsHiddenUntil, a.HiddenReason = e.Until, e.Reason
		case events.AuthorPostsRestored:
			a.PostsHiddenUntil, a.HiddenReason = time.Time{}, ""
		case events.AuthorErased: // the block stays: an author must not end it by requesting erasure
			a.MemberID, a.PostsHiddenUntil, a.HiddenReason = "", time.Time{}, ""
		default: // no event of this stream
		}
	}
	return a
}

// Link attributes the author's comments to a member. It replaces an earlier link, and returns no event for the same
// member.
func (a Author) Link(memberID, reason string) ([]events.Event, error) {
	switch {
	case !validMember(memberID):
		return nil, ErrMemberInvalid
	case memberID == a.MemberID:
		return nil, nil
	default:
		link := &events.AuthorLink{ExternalUUID: a.Ref.Author.ExternalUUID, MemberID: memberID}
		return []events.Event{events.AuthorLinked{IntegrationID: a.Ref.IntegrationID, Reason: reason, Link: link}}, nil
	}
}

// Unlink attributes the author's comments to the partner platform again.
func (a Author) Unlink(reason string) ([]events.Event, error) {
	if a.MemberID == "" {
		return nil, &TransitionError{ofAuthor, Unlinked, Unlinked}
	}
	return []events.Event{events.AuthorUnlinked{AuthorRef: a.Ref, Reason: reason}}, nil
}

// Block makes the service refuse new comments of the author.
func (a Author) Block(reason string) ([]events.Event, error) {
	if a.Blocked {
		return nil, &TransitionError{ofAuthor, Blocked, Blocked}
	}
	return []events.Event{events.AuthorBlocked{AuthorRef: a.Ref, Reason: reason}}, nil
}

// Unblock lets the author comment again.
func (a Author) Unblock(reason string) ([]events.Event, error) {
	if !a.Blocked {
		return nil, &TransitionError{ofAuthor, Unblocked, Unblocked}
	}
	return []events.Event{events.AuthorUnblocked{AuthorRef: a.Ref, Reason: reason}}, nil
}

// HidePosts hides the author's comments received up to now. It can be repeated, to hide later ones too.
func (a Author) HidePosts(reason string, now time.Time) ([]events.Event, error) {
	return []events.Event{events.AuthorPostsHidden{AuthorRef: a.Ref, Until: now.UTC(), Reason: reason}}, nil
}

// RestorePosts makes the comments visible that HidePosts hid. Comments hidden individually stay hidden.
func (a Author) RestorePosts(reason string) ([]events.Event, error) {
	if a.PostsHiddenUntil.IsZero() {
		return nil, &TransitionError{ofComments, Visible, Visible}
	}
	return []events.Event{events.AuthorPostsRestored{AuthorRef: a.Ref, Reason: reason}}, nil
}

// Erase records the erasure of the author's personal data, with the number of erased comments and decisions. It can be
// repeated, to erase later comments too.
func (a Author) Erase(reason string, comments, decisions int) ([]events.Event, error) {
	return []events.Event{events.AuthorErased{
		IntegrationID: a.Ref.IntegrationID, Reason: reason, Comments: comments, Decisions: decisions,
	}}, nil
}

// Comment refuses a comment of a blocked author with ErrBlocked.
func (a Author) Comment() error {
	if a.Blocked {
		return ErrBlocked
	}
	return nil
}

func validMember(id string) bool {
	n := utf8.RuneCountInString(id)
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	return n >= 1 && n <= maxIdentifier && utf8.ValidString(id) && id == strings.TrimSpace(id) &&
		!strings.ContainsFunc(id, unprintable)
}
