// Package author decides what staff may do about a partner's user who comments: to whom their comments are attributed,
// whether they may go on, and whether readers see what they wrote.
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

// State is where an author stands in one respect.
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

// TransitionError refuses a move that the states do not allow.
type TransitionError struct {
	Subject  string // such as "an author who is"
	From, To State
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("%s %s cannot become %s", e.Subject, e.From, e.To)
}

const (
	ofAuthor   = "an author who is"
	ofComments = "comments of an author that are"
)

// Ref names a partner's user, whom nobody need have heard of. It refuses with ErrUUIDInvalid what no comment can carry.
func Ref(integrationID uuid.UUID, externalUUID string) (events.AuthorRef, error) {
	blank := strings.TrimSpace(externalUUID) == ""
	if blank || !utf8.ValidString(externalUUID) || strings.ContainsRune(externalUUID, 0) ||
		utf8.RuneCountInString(externalUUID) > maxIdentifier {
		return events.AuthorRef{}, ErrUUIDInvalid
	}
	return events.AuthorRef{IntegrationID: integrationID, Author: &events.ExternalAuthor{ExternalUUID: externalUUID}}, nil
}

// Author is the state that decisions are taken on. The zero Author is one about whom staff have decided nothing.
type Author struct {
	Ref              events.AuthorRef
	MemberID         string    // the member of the host platform; "" when not linked
	Blocked          bool      // comments are refused
	PostsHiddenUntil time.Time // comments received up to then are hidden; zero when none are
	HiddenReason     string    // why they are
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
		case events.AuthorErased: // a block stays: otherwise asking for erasure would end it
			a.MemberID, a.PostsHiddenUntil, a.HiddenReason = "", time.Time{}, ""
		default: // no event of this stream
		}
	}
	return a
}

// Link attributes the author's comments to a member, instead of another one too. It makes no event when that is so.
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

// Block refuses the author's further comments.
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

// HidePosts hides the comments of the author that were received until now. That can be done again: more may have come.
func (a Author) HidePosts(reason string, now time.Time) ([]events.Event, error) {
	return []events.Event{events.AuthorPostsHidden{AuthorRef: a.Ref, Until: now.UTC(), Reason: reason}}, nil
}

// RestorePosts ends that. Comments that were hidden one by one stay hidden.
func (a Author) RestorePosts(reason string) ([]events.Event, error) {
	if a.PostsHiddenUntil.IsZero() {
		return nil, &TransitionError{ofComments, Visible, Visible}
	}
	return []events.Event{events.AuthorPostsRestored{AuthorRef: a.Ref, Reason: reason}}, nil
}

// Erase records that what is known of the author was erased: so many comments and decisions, those up to searched
// before this event. It can be done again: more may have come.
func (a Author) Erase(reason string, comments, decisions int, searched events.Position) ([]events.Event, error) {
	return []events.Event{events.AuthorErased{
		IntegrationID: a.Ref.IntegrationID, Reason: reason, Comments: comments, Decisions: decisions,
		Searched: searched.String(),
	}}, nil
}

// Comment refuses with ErrBlocked what a blocked author writes.
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
