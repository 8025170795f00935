package novel

import (
	"cmp"

	"novelgate/events"
)

// Publication is the host platform's command to make a title canonical.
type Publication struct {
	Title  string // cleaned by title.Clean; used on creation
	Slug   string // used on creation, unless the title already has a slug
	Fields Fields
	Reason string
}

// Publish makes the novel canonical. If the title has no novel and is not barred, Publish creates one. If a partner
// owns the novel, the host platform takes it over, with a second event if fields change. A rejected or published novel
// and a barred title are refused with *TransitionError.
func (n Novel) Publish(cmd Publication) ([]events.Event, error) {
	switch {
	case !n.Exists():
		created := n.create(Upsert{Title: cmd.Title, Slug: cmd.Slug, Fields: cmd.Fields})
		created.State, created.OwnerID, created.Reason = string(Published), nil, cmd.Reason
		return []events.Event{created}, nil
	case n.State == Rejected || n.State == Published:
		return nil, &TransitionError{n.State, Published}
	default:
		decided := []events.Event{events.NovelPublished{Reason: cmd.Reason}}
		if changed := n.Details.changed(cmd.Fields); changed != (events.NovelUpdated{}) {
			decided = append(decided, changed)
		}
		return decided, nil
	}
}

// Approve approves a pending or rejected novel. A barred title becomes free.
func (n Novel) Approve(reason string) (events.Event, error) {
	switch {
	case n.Barred():
		return events.NovelUnbarred{Reason: reason}, nil
	case n.State == Pending || n.State == Rejected:
		return events.NovelApproved{Reason: reason}, nil
	default:
		return nil, &TransitionError{n.State, Approved}
	}
}

// Reject rejects a pending or approved novel.
func (n Novel) Reject(reason string) (events.Event, error) {
	if n.State != Pending && n.State != Approved {
		return nil, &TransitionError{n.State, Rejected}
	}
	return events.NovelRejected{Reason: reason}, nil
}

// Bar rejects a title that has no novel. A free one, which was barred before, keeps its spelling and its slug.
func (n Novel) Bar(title, slug, reason string) (events.Event, error) {
	if n.Exists() {
		return nil, &TransitionError{n.State, Rejected}
	}
	return events.NovelBarred{Title: cmp.Or(n.Title, title), Slug: cmp.Or(n.Slug, slug), Reason: reason}, nil
}

// EditError refuses an edit of a novel that the host platform does not own.
type EditError struct{ State State }

func (e *EditError) Error() string {
	switch e.State {
	case Rejected:
		return "the title is rejected: approve and publish it first"
	case Free:
		return "no partner has imported the title: publish it first"
	default:
		return "the novel belongs to a partner: publish it first"
	}
}

// Edit changes fields of a canonical novel. It returns nil when nothing changes.
func (n Novel) Edit(fields Fields, reason string) (events.Event, error) {
	if n.State != Published {
		return nil, &EditError{n.State}
	}
	changed := n.Details.changed(fields)
	if changed == (events.NovelUpdated{}) {
		return nil, nil
	}
	changed.Reason = reason
	return changed, nil
}
