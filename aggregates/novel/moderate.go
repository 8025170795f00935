package novel

import "novelgate/events"

// Publish makes the novel canonical: it creates the title when it is unknown and adopts a partner's novel otherwise.
func (n Novel) Publish(title, slug, reason string) (events.Event, error) {
	switch {
	case !n.Exists():
		return events.NovelCreated{Title: title, Slug: slug, Author: DefaultAuthor, State: string(Published)}, nil
	case n.State == Rejected || n.State == Published:
		return nil, &TransitionError{n.State, Published}
	default:
		return events.NovelPublished{Reason: reason}, nil
	}
}

// Approve lets a pending or rejected novel in.
func (n Novel) Approve(reason string) (events.Event, error) {
	if n.State != Pending && n.State != Rejected {
		return nil, &TransitionError{n.State, Approved}
	}
	return events.NovelApproved{Reason: reason}, nil
}

// Reject declines a pending or approved novel.
func (n Novel) Reject(reason string) (events.Event, error) {
	if n.State != Pending && n.State != Approved {
		return nil, &TransitionError{n.State, Rejected}
	}
	return events.NovelRejected{Reason: reason}, nil
}
