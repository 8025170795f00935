package novel

import (
	"cmp"

	"novelgate/events"
)

// Publication is the host platform's command to make a title canonical.
type Publication struct {
	Title  string // cleaned; used on creation
	Slug   string // used on creation, unless one is kept for the title
	Fields Fields
	Reason string
}

// Publish makes the novel canonical: it creates the title when there is no novel, and adopts a partner's otherwise;
// what the fields change then is an event of its own.
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

// Approve lets a pending or rejected novel in. Where nobody has imported the rejected title it becomes free.
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

// Reject declines a pending or approved novel.
func (n Novel) Reject(reason string) (events.Event, error) {
	if n.State != Pending && n.State != Approved {
		return nil, &TransitionError{n.State, Rejected}
	}
	return events.NovelRejected{Reason: reason}, nil
}

// Bar declines a title that no novel has. A title that was free before keeps its spelling and its slug until a novel
// is created.
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
		return "nobody has imported the title: publish it first"
	default:
		return "the novel belongs to a partner: publish it first"
	}
}

// Edit decides what staff change about a canonical novel: nil when everything is so already.
func (n Novel) Edit(fields Fields, reason string) (events.Event, error) {
	if n.State != Published {
		return nil, &EditError{n.State}
	}
	changed := n.Details.changed(fields)
	if changed == (events.NovelUpdated{}) {
		return nil, nil //nolint:nilnil // said above
	}
	changed.Reason = reason
	return changed, nil
}
