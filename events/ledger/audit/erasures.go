package audit

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"novelgate/events"
)

// erasures checks that a recorded erasure follows every erased event. For an erased decision about an author, that is
// author.erased in the author's stream; for an event of a comment, post.withdrawn in its stream. The author of an
// erased comment is unknown, so any later erasure of an author of the same integration counts, too.
type erasures struct {
	comments  map[uuid.UUID]unrecorded             // by comment
	ofPartner map[uuid.UUID]map[uuid.UUID]struct{} // comments by integration, with an erased import or edit
	decisions map[uuid.UUID]unrecorded             // by author
}

// unrecorded counts erased events without a later erasure.
type unrecorded struct{ count, first int64 }

// erasure is what the check needs of an event that was erased, or that records an erasure.
type erasure struct {
	index         int64
	integrationID uuid.UUID // of the author or the comment; zero for a report, which may come from another integration
	authorID      uuid.UUID // zero for an event of a comment
	postID        uuid.UUID // zero for an event of an author
	record        bool      // the event records an erasure; otherwise it was erased
}

func newErasures() erasures {
	return erasures{
		comments: map[uuid.UUID]unrecorded{}, ofPartner: map[uuid.UUID]map[uuid.UUID]struct{}{},
		decisions: map[uuid.UUID]unrecorded{},
	}
}

// Prefixes of event types in all their versions.
const (
	recordPrefix    = "author.erased."
	withdrawnPrefix = "post.withdrawn."
	reportedPrefix  = "post.reported."
)

// erasureOf returns the data of an event for the check; false unless the event was erased or records an erasure. The
// event must match its entry.
func erasureOf(index int64, e *StoredEvent, erased bool) (erasure, bool) {
	x := erasure{index: index}
	switch e.StreamType {
	case events.AuthorStream:
		x.authorID, x.record = e.StreamID, strings.HasPrefix(e.Type, recordPrefix)
	case events.PostStream:
		x.postID, x.record = e.StreamID, strings.HasPrefix(e.Type, withdrawnPrefix)
	}
	if !erased && !x.record {
		return erasure{}, false
	}
	var of struct {
		IntegrationID uuid.UUID `json:"integrationId"`
	}
	source, _ := events.SplitSource(e.Source)
	switch {
	case strings.HasPrefix(e.Type, reportedPrefix):
	case source.Valid:
		x.integrationID = source.UUID
	case json.Unmarshal(e.Data, &of) == nil:
		// Without an integration, an erased decision counts as unrecorded, and an erasure event is ignored.
		x.integrationID = of.IntegrationID
	}
	return x, true
}

// add adds the next event, in log order.
func (a *erasures) add(x erasure) {
	switch {
	case x.record && x.integrationID == uuid.Nil:
	case x.record && x.postID != uuid.Nil:
		delete(a.comments, x.postID)
		delete(a.ofPartner[x.integrationID], x.postID)
	case x.record:
		for post := range a.ofPartner[x.integrationID] {
			delete(a.comments, post)
		}
		delete(a.ofPartner, x.integrationID)
		delete(a.decisions, x.authorID)
	case x.authorID != uuid.Nil:
		a.decisions[x.authorID] = a.decisions[x.authorID].with(x.index)
	default:
		a.comments[x.postID] = a.comments[x.postID].with(x.index)
		if x.integrationID == uuid.Nil {
			return
		}
		if a.ofPartner[x.integrationID] == nil {
			a.ofPartner[x.integrationID] = map[uuid.UUID]struct{}{}
		}
		a.ofPartner[x.integrationID][x.postID] = struct{}{}
	}
}

// with counts one more event.
func (u unrecorded) with(index int64) unrecorded {
	if u.count == 0 {
		u.first = index
	}
	u.count++
	return u
}

// unrecorded returns the number of erased events without a recorded erasure, and the log index of the first one.
func (a *erasures) unrecorded() (all unrecorded) {
	for _, list := range []map[uuid.UUID]unrecorded{a.comments, a.decisions} {
		for _, u := range list {
			if all.count == 0 || u.first < all.first {
				all.first = u.first
			}
			all.count += u.count
		}
	}
	return all
}
