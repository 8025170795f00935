package audit

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"novelgate/events"
)

// erasures checks that a recorded erasure follows every erased event. For an erased decision about an author, that is
// author.erased in the author's stream. The author of an erased comment is unknown, so any later erasure of an
// author of the same integration counts.
type erasures struct {
	comments  map[uuid.UUID]unrecorded // by integration
	decisions map[uuid.UUID]unrecorded // by author
}

// unrecorded counts erased events without a later erasure.
type unrecorded struct{ count, first int64 }

// erasure is what the check needs of an event that was erased, or that records an erasure.
type erasure struct {
	index         int64
	integrationID uuid.UUID
	authorID      uuid.UUID // zero for a comment
	record        bool      // the event records an erasure; otherwise it was erased
}

func newErasures() erasures {
	return erasures{comments: map[uuid.UUID]unrecorded{}, decisions: map[uuid.UUID]unrecorded{}}
}

// recordPrefix begins the type of the erasure event in all its versions.
const recordPrefix = "author.erased."

// erasureOf returns the data of an event for the check; false unless the event was erased or records an erasure. The
// event must match its entry.
func erasureOf(index int64, e *StoredEvent, erased bool) (erasure, bool) {
	record := e.StreamType == events.AuthorStream && strings.HasPrefix(e.Type, recordPrefix)
	if !erased && !record {
		return erasure{}, false
	}
	var of struct {
		IntegrationID uuid.UUID `json:"integrationId"`
	}
	if source, _ := events.SplitSource(e.Source); source.Valid {
		of.IntegrationID = source.UUID
	} else if err := json.Unmarshal(e.Data, &of); err != nil {
		// Without an integration, an erased comment counts as unrecorded, and an erasure event is ignored.
		of.IntegrationID = uuid.Nil
	}
	x := erasure{index: index, integrationID: of.IntegrationID, record: record}
	if e.StreamType == events.AuthorStream {
		x.authorID = e.StreamID
	}
	return x, true
}

// add adds the next event, in log order.
func (a *erasures) add(x erasure) {
	switch {
	case x.record && x.integrationID == uuid.Nil:
	case x.record:
		delete(a.comments, x.integrationID)
		delete(a.decisions, x.authorID)
	case x.authorID != uuid.Nil:
		a.decisions[x.authorID] = a.decisions[x.authorID].with(x.index)
	default:
		a.comments[x.integrationID] = a.comments[x.integrationID].with(x.index)
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
