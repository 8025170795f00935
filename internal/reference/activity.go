package reference

import (
	"maps"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"novelgate/events"
)

// activity counts deliveries of partners.
type activity struct {
	applied      map[bool]*appliedRow // at most one row
	days         map[dayKey]*dailyFactsRow
	threads      map[uuid.UUID]*threadActivityRow
	chapters     map[chapterKey]*chapterActivityRow
	novels       map[uuid.UUID]*novelActivityRow
	integrations map[uuid.UUID]*integrationActivityRow
}

func newActivity() activity {
	return activity{
		applied: map[bool]*appliedRow{}, days: map[dayKey]*dailyFactsRow{},
		threads: map[uuid.UUID]*threadActivityRow{}, chapters: map[chapterKey]*chapterActivityRow{},
		novels: map[uuid.UUID]*novelActivityRow{}, integrations: map[uuid.UUID]*integrationActivityRow{},
	}
}

type appliedRow struct {
	OneRow   bool            `json:"one_row"`
	Position events.Position `json:"position"`
}

type dayKey struct {
	day                string
	integration, novel uuid.UUID
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
	FirstPostAt     moment    `json:"first_post_at"`
	LastPostID      uuid.UUID `json:"last_post_id"`
	LastPostAt      moment    `json:"last_post_at"`
	FirstReceivedAt moment    `json:"first_received_at"`
	LastReceivedAt  moment    `json:"last_received_at"`
}

type chapterKey struct {
	thread  uuid.UUID
	chapter string // without trailing zeros
}

type chapterActivityRow struct {
	ThreadID      uuid.UUID      `json:"thread_id"`
	ChapterNumber jsontext.Value `json:"chapter_number"`
	Posts         int            `json:"posts"`
	Replies       int            `json:"replies"`
}

type novelActivityRow struct {
	NovelID   uuid.UUID      `json:"novel_id"`
	CreatedAt optionalMoment `json:"created_at"`
	PostedAt  optionalMoment `json:"posted_at"`
}

type integrationActivityRow struct {
	IntegrationID   uuid.UUID `json:"integration_id"`
	Posts           int       `json:"posts"`
	Replies         int       `json:"replies"`
	NovelsCreated   int       `json:"novels_created"`
	NovelsUpdated   int       `json:"novels_updated"`
	FirstActivityAt moment    `json:"first_activity_at"`
	LastActivityAt  moment    `json:"last_activity_at"`
}

// optionalMoment is a time; the zero value is written as -infinity.
type optionalMoment time.Time

func (m optionalMoment) MarshalText() ([]byte, error) {
	if time.Time(m).IsZero() {
		return []byte("-infinity"), nil
	}
	return moment(m).MarshalText()
}

func earlier(a, b moment) moment {
	if time.Time(a).Before(time.Time(b)) {
		return a
	}
	return b
}

func later(a, b moment) moment {
	if time.Time(a).After(time.Time(b)) {
		return a
	}
	return b
}

// setApplied records the position up to which events are counted.
func (a *activity) setApplied(r *events.Recorded) {
	a.applied[true] = &appliedRow{OneRow: true, Position: r.End()}
}

func (a *activity) day(when time.Time, integration, novel uuid.UUID) *dailyFactsRow {
	key := dayKey{when.UTC().Format(time.DateOnly), integration, novel}
	return rowOf(a.days, key, dailyFactsRow{Day: key.day, IntegrationID: integration, NovelID: novel})
}

func (a *activity) integration(id uuid.UUID, when time.Time) *integrationActivityRow {
	i := rowOf(a.integrations, id, integrationActivityRow{IntegrationID: id, FirstActivityAt: moment(when)})
	i.FirstActivityAt, i.LastActivityAt = earlier(i.FirstActivityAt, moment(when)), later(i.LastActivityAt, moment(when))
	return i
}

func (a *activity) novelRow(id uuid.UUID) *novelActivityRow {
	return rowOf(a.novels, id, novelActivityRow{NovelID: id})
}

func (a *activity) chapter(e *events.PostImported) *chapterActivityRow {
	number := "-1"
	if e.ChapterNumber != nil {
		number = string(numeric(e.ChapterNumber))
		if strings.Contains(number, ".") {
			number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
		}
	}
	return rowOf(a.chapters, chapterKey{e.ThreadID, number},
		chapterActivityRow{ThreadID: e.ThreadID, ChapterNumber: jsontext.Value(number)})
}

// novel counts commands of partners on novels. It records the time of a creation by staff, too.
func (a *activity) novel(r *events.Recorded) {
	if _, created := r.Event.(events.NovelCreated); created {
		a.novelRow(r.StreamID).CreatedAt = optionalMoment(r.RecordedAt)
		a.setApplied(r)
	}
	source, _ := events.SplitSource(r.Source)
	if !source.Valid {
		return
	}
	integration := source.UUID
	switch r.Event.(type) {
	case events.NovelCreated:
		a.integration(integration, r.RecordedAt).NovelsCreated++
		a.day(r.RecordedAt, integration, r.StreamID).NovelsCreated++
	case events.NovelUpdated:
		a.integration(integration, r.RecordedAt).NovelsUpdated++
		a.day(r.RecordedAt, integration, r.StreamID).NovelsUpdated++
	default:
		return
	}
	a.setApplied(r)
}

func (a *activity) post(r *events.Recorded, e events.PostImported) {
	a.setApplied(r)
	written, received := moment(e.WrittenAt), moment(r.RecordedAt)
	t := rowOf(a.threads, e.ThreadID, threadActivityRow{
		ThreadID: e.ThreadID, NovelID: e.NovelID, FirstPostID: r.StreamID, FirstPostAt: written, LastPostAt: written,
		FirstReceivedAt: received,
	})
	i, c := a.integration(e.IntegrationID, r.RecordedAt), a.chapter(&e)
	t.Posts++
	i.Posts++
	c.Posts++
	a.day(e.WrittenAt, e.IntegrationID, e.NovelID).Posts++
	if e.ParentPostID != nil {
		c.Replies++
		t.Replies++
		i.Replies++
	}
	n := a.novelRow(e.NovelID)
	n.PostedAt = optionalMoment(later(moment(n.PostedAt), moment(e.WrittenAt.Truncate(time.Minute))))
	if e.WrittenAt.Before(time.Time(t.FirstPostAt)) {
		t.FirstPostID, t.FirstPostAt = r.StreamID, written
	}
	if !e.WrittenAt.Before(time.Time(t.LastPostAt)) {
		t.LastPostID, t.LastPostAt = r.StreamID, written
	}
	t.FirstReceivedAt = earlier(t.FirstReceivedAt, received)
	t.LastReceivedAt = later(t.LastReceivedAt, received)
}

func (a *activity) write(w *writer) {
	writeAll(w, "activity_applied", maps.Values(a.applied))
	writeAll(w, "daily_facts", maps.Values(a.days))
	writeAll(w, "thread_activity", maps.Values(a.threads))
	writeAll(w, "chapter_activity", maps.Values(a.chapters))
	writeAll(w, "novel_activity", maps.Values(a.novels))
	writeAll(w, "integration_activity", maps.Values(a.integrations))
}
