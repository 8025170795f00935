package reference

import (
	"time"

	"github.com/google/uuid"

	"novelgate/events"
)

// activity counts with sets for all that is distinct.
type activity struct {
	applied      *appliedRow
	days         map[dayKey]*dayCount
	threads      map[uuid.UUID]*threadCount
	integrations map[uuid.UUID]*integrationCount
}

func newActivity() activity {
	return activity{
		days: map[dayKey]*dayCount{}, threads: map[uuid.UUID]*threadCount{}, integrations: map[uuid.UUID]*integrationCount{},
	}
}

type (
	set    map[uuid.UUID]bool
	dayKey struct {
		day                string
		integration, novel uuid.UUID
	}
	dayCount struct {
		posts, created, updated int
		authors                 set
	}
	threadCount struct {
		novel                                        uuid.UUID
		posts, replies                               int
		authors                                      set
		first, last                                  uuid.UUID
		firstAt, lastAt, firstReceived, lastReceived time.Time
	}
	integrationCount struct {
		posts, replies, created, updated int
		authors                          set
		first, last                      time.Time
	}
)

func (a *activity) counted(r *events.Recorded) {
	a.applied = &appliedRow{OneRow: true, TransactionID: transaction(r.Position), Position: r.Position.Ordinal}
}

func (a *activity) day(when time.Time, integration, novel uuid.UUID) *dayCount {
	key := dayKey{when.UTC().Format(time.DateOnly), integration, novel}
	if a.days[key] == nil {
		a.days[key] = &dayCount{authors: set{}}
	}
	return a.days[key]
}

func (a *activity) integration(id uuid.UUID, when time.Time) *integrationCount {
	i := a.integrations[id]
	if i == nil {
		i = &integrationCount{authors: set{}, first: when}
		a.integrations[id] = i
	}
	if when.Before(i.first) {
		i.first = when
	}
	if when.After(i.last) {
		i.last = when
	}
	return i
}

// novel counts what partners do to novels; what staff do does not count.
func (a *activity) novel(r *events.Recorded) {
	source, _ := events.SplitSource(r.Source)
	if !source.Valid {
		return
	}
	integration := source.UUID
	switch r.Event.(type) {
	case events.NovelCreated:
		a.integration(integration, r.RecordedAt).created++
		a.day(r.RecordedAt, integration, r.StreamID).created++
	case events.NovelUpdated:
		a.integration(integration, r.RecordedAt).updated++
		a.day(r.RecordedAt, integration, r.StreamID).updated++
	default:
		return
	}
	a.counted(r)
}

func (a *activity) post(r *events.Recorded, e events.PostImported) {
	a.counted(r)
	t := a.threads[e.ThreadID]
	if t == nil {
		t = &threadCount{
			novel: e.NovelID, authors: set{}, first: r.StreamID, firstAt: e.WrittenAt, lastAt: e.WrittenAt,
			firstReceived: r.RecordedAt,
		}
		a.threads[e.ThreadID] = t
	}
	i, d := a.integration(e.IntegrationID, r.RecordedAt), a.day(e.WrittenAt, e.IntegrationID, e.NovelID)
	t.posts++
	i.posts++
	d.posts++
	if e.ParentPostID != nil {
		t.replies++
		i.replies++
	}
	if e.Comment != nil {
		author := events.AuthorID(e.IntegrationID, e.Comment.ExternalUUID)
		t.authors[author], i.authors[author], d.authors[author] = true, true, true
	}
	if e.WrittenAt.Before(t.firstAt) {
		t.first, t.firstAt = r.StreamID, e.WrittenAt
	}
	if !e.WrittenAt.Before(t.lastAt) {
		t.last, t.lastAt = r.StreamID, e.WrittenAt
	}
	if r.RecordedAt.Before(t.firstReceived) {
		t.firstReceived = r.RecordedAt
	}
	if r.RecordedAt.After(t.lastReceived) {
		t.lastReceived = r.RecordedAt
	}
}

func (a *activity) erase(r *events.Recorded) {
	a.counted(r)
	for _, d := range a.days {
		delete(d.authors, r.StreamID)
	}
	for _, t := range a.threads {
		delete(t.authors, r.StreamID)
	}
	for _, i := range a.integrations {
		delete(i.authors, r.StreamID)
	}
}
