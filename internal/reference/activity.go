package reference

import (
	"time"

	"github.com/google/uuid"

	"novelgate/events"
)

// activity counts what partners deliver.
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
	dayKey struct {
		day                string
		integration, novel uuid.UUID
	}
	dayCount struct {
		posts, created, updated int
	}
	threadCount struct {
		novel                                        uuid.UUID
		posts, replies                               int
		first, last                                  uuid.UUID
		firstAt, lastAt, firstReceived, lastReceived time.Time
	}
	integrationCount struct {
		posts, replies, created, updated int
		first, last                      time.Time
	}
)

func (a *activity) counted(r *events.Recorded) {
	a.applied = &appliedRow{OneRow: true, TransactionID: transaction(r.Position), Position: r.Position.Ordinal}
}

func (a *activity) day(when time.Time, integration, novel uuid.UUID) *dayCount {
	key := dayKey{when.UTC().Format(time.DateOnly), integration, novel}
	if a.days[key] == nil {
		a.days[key] = &dayCount{}
	}
	return a.days[key]
}

func (a *activity) integration(id uuid.UUID, when time.Time) *integrationCount {
	i := a.integrations[id]
	if i == nil {
		i = &integrationCount{first: when}
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
			novel: e.NovelID, first: r.StreamID, firstAt: e.WrittenAt, lastAt: e.WrittenAt,
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

type appliedRow struct {
	OneRow        bool   `json:"one_row"`
	TransactionID string `json:"transaction_id"`
	Position      int32  `json:"position"`
}

type dailyFactsRow struct {
	Day           string    `json:"day"`
	IntegrationID uuid.UUID `json:"integration_id"`
	NovelID       uuid.UUID `json:"novel_id"`
	Posts         int       `json:"posts"`
	NovelsCreated int       `json:"novels_created"`
	NovelsUpdated int       `json:"novels_updated"`
}

type threadActivityRow struct {
	ThreadID        uuid.UUID `json:"thread_id"`
	NovelID         uuid.UUID `json:"novel_id"`
	Posts           int       `json:"posts"`
	Replies         int       `json:"replies"`
	FirstPostID     uuid.UUID `json:"first_post_id"`
	FirstPostAt     *moment   `json:"first_post_at"`
	LastPostID      uuid.UUID `json:"last_post_id"`
	LastPostAt      *moment   `json:"last_post_at"`
	FirstReceivedAt *moment   `json:"first_received_at"`
	LastReceivedAt  *moment   `json:"last_received_at"`
}

type integrationActivityRow struct {
	IntegrationID   uuid.UUID `json:"integration_id"`
	Posts           int       `json:"posts"`
	Replies         int       `json:"replies"`
	NovelsCreated   int       `json:"novels_created"`
	NovelsUpdated   int       `json:"novels_updated"`
	FirstActivityAt *moment   `json:"first_activity_at"`
	LastActivityAt  *moment   `json:"last_activity_at"`
}

func (a *activity) write(w *writer) {
	for _, table := range []string{
		"activity_applied", "daily_facts", "thread_activity", "integration_activity",
	} {
		w.begin(table)
	}
	if a.applied != nil {
		w.add("activity_applied", a.applied)
	}
	for key, d := range a.days {
		w.add("daily_facts",
			dailyFactsRow{key.day, key.integration, key.novel, d.posts, d.created, d.updated})
	}
	for id, t := range a.threads {
		w.add("thread_activity", threadActivityRow{
			id, t.novel, t.posts, t.replies, t.first, at(t.firstAt), t.last, at(t.lastAt), at(t.firstReceived),
			at(t.lastReceived),
		})
	}
	for id, i := range a.integrations {
		w.add("integration_activity", integrationActivityRow{
			id, i.posts, i.replies, i.created, i.updated, at(i.first), at(i.last),
		})
	}
}
