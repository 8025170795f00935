package reference

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"novelgate/events"
)

// activity counts what partners deliver.
type activity struct {
	applied      *appliedRow
	days         map[dayKey]*dayCount
	threads      map[uuid.UUID]*threadCount
	chapters     map[chapterKey]*chapterCount
	moments      map[uuid.UUID]*novelMoments
	integrations map[uuid.UUID]*integrationCount
}

func newActivity() activity {
	return activity{
		days: map[dayKey]*dayCount{}, threads: map[uuid.UUID]*threadCount{}, integrations: map[uuid.UUID]*integrationCount{},
		chapters: map[chapterKey]*chapterCount{}, moments: map[uuid.UUID]*novelMoments{},
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
	chapterKey struct {
		thread  uuid.UUID
		chapter string // without zeros at its end
	}
	chapterCount     struct{ posts, replies int }
	novelMoments     struct{ created, posted time.Time }
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

func (a *activity) novelMoments(id uuid.UUID) *novelMoments {
	if a.moments[id] == nil {
		a.moments[id] = &novelMoments{}
	}
	return a.moments[id]
}

func (a *activity) chapter(e *events.PostImported) *chapterCount {
	number := "-1"
	if e.ChapterNumber != nil {
		number = string(numeric(e.ChapterNumber))
		if strings.Contains(number, ".") {
			number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
		}
	}
	key := chapterKey{e.ThreadID, number}
	if a.chapters[key] == nil {
		a.chapters[key] = &chapterCount{}
	}
	return a.chapters[key]
}

// novel counts what partners do to novels; of what staff do, only that they create them.
func (a *activity) novel(r *events.Recorded) {
	if _, created := r.Event.(events.NovelCreated); created {
		a.novelMoments(r.StreamID).created = r.RecordedAt
		a.counted(r)
	}
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
	c := a.chapter(&e)
	t.posts++
	i.posts++
	d.posts++
	c.posts++
	if n := a.novelMoments(e.NovelID); e.WrittenAt.After(n.posted) {
		n.posted = e.WrittenAt
	}
	if e.ParentPostID != nil {
		c.replies++
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

type chapterActivityRow struct {
	ThreadID      uuid.UUID      `json:"thread_id"`
	ChapterNumber jsontext.Value `json:"chapter_number"`
	Posts         int            `json:"posts"`
	Replies       int            `json:"replies"`
}

type novelActivityRow struct {
	NovelID   uuid.UUID `json:"novel_id"`
	CreatedAt string    `json:"created_at"`
	PostedAt  string    `json:"posted_at"`
}

// orNever is a moment that is -infinity rather than zero.
func orNever(t time.Time) string {
	if t.IsZero() {
		return "-infinity"
	}
	text, _ := moment(t).MarshalText()
	return string(text)
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
		"activity_applied", "daily_facts", "thread_activity", "chapter_activity", "integration_activity", "novel_activity",
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
	for key, c := range a.chapters {
		w.add("chapter_activity", chapterActivityRow{key.thread, jsontext.Value(key.chapter), c.posts, c.replies})
	}
	for id, n := range a.moments {
		w.add("novel_activity", novelActivityRow{id, orNever(n.created), orNever(n.posted.Truncate(time.Minute))})
	}
	for id, i := range a.integrations {
		w.add("integration_activity", integrationActivityRow{
			id, i.posts, i.replies, i.created, i.updated, at(i.first), at(i.last),
		})
	}
}
