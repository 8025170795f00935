package projections_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"novelgate/events"
)

// modelQueries render the rows of each read model as naiveModels does.
var modelQueries = map[string]string{
	"novels": `SELECT concat_ws('|', novel_id, title, slug, author, coalesce(synopsis, '-'), coalesce(cover_url, '-'), array_to_string(genres, ','),
		coalesce(language, '-'), coalesce(reading_status, '-'), state, coalesce(owner_id::text, '-'), coalesce(created_by::text, '-'), micros(created_at),
		coalesce(micros(updated_at)::text, '-'), updates, coalesce(micros(moderated_at)::text, '-'), moderations, version) FROM analytics.novels`,
	"thread_activity": `SELECT concat_ws('|', thread_id, novel_id, posts, replies, participants, first_post_id, micros(first_post_at),
		last_post_id, micros(last_post_at), micros(first_received_at), micros(last_received_at)) FROM analytics.thread_activity`,
	"integration_activity": `SELECT concat_ws('|', integration_id, posts, replies, authors, novels_created, novels_updated,
		micros(first_activity_at), micros(last_activity_at)) FROM analytics.integration_activity`,
	"daily_facts":   `SELECT concat_ws('|', day, integration_id, novel_id, posts, authors, novels_created, novels_updated) FROM analytics.daily_facts`,
	"daily_authors": `SELECT concat_ws('|', day, integration_id, novel_id, author_id) FROM analytics.daily_authors`,
}

// naiveModels says, one event after another and with sets for all that is distinct, what the read models must come to.
func naiveModels(log []events.Recorded) map[string][]string {
	m := &models{
		novels: map[uuid.UUID]*novelModel{}, threads: map[uuid.UUID]*threadModel{},
		integrations: map[uuid.UUID]*integrationModel{}, days: map[dayKey]*dayModel{},
	}
	for i := range log {
		switch e := log[i].Event.(type) {
		case events.PostImported:
			m.post(&log[i], e)
		default:
			if log[i].StreamType == events.NovelStream {
				m.novel(&log[i])
			}
		}
	}
	return m.rows()
}

type (
	models struct {
		novels       map[uuid.UUID]*novelModel
		threads      map[uuid.UUID]*threadModel
		integrations map[uuid.UUID]*integrationModel
		days         map[dayKey]*dayModel
	}
	novelModel struct {
		events.NovelCreated
		createdBy                     *uuid.UUID
		created, updated, moderated   time.Time
		updates, moderations, version int
	}
	threadModel struct {
		novel                                uuid.UUID
		posts, replies                       int
		authors                              map[uuid.UUID]bool
		first, last                          uuid.UUID
		firstAt, lastAt, firstSeen, lastSeen time.Time
	}
	integrationModel struct {
		posts, replies, created, updated int
		authors                          map[uuid.UUID]bool
		first, last                      time.Time
	}
	dayKey struct {
		day                string
		integration, novel uuid.UUID
	}
	dayModel struct {
		posts, created, updated int
		authors                 map[uuid.UUID]bool
	}
)

func (m *models) integration(id uuid.UUID, at time.Time) *integrationModel {
	i := m.integrations[id]
	if i == nil {
		i = &integrationModel{authors: map[uuid.UUID]bool{}, first: at}
		m.integrations[id] = i
	}
	if at.Before(i.first) {
		i.first = at
	}
	if at.After(i.last) {
		i.last = at
	}
	return i
}

func (m *models) day(at time.Time, integration, novel uuid.UUID) *dayModel {
	key := dayKey{at.UTC().Format(time.DateOnly), integration, novel}
	if m.days[key] == nil {
		m.days[key] = &dayModel{authors: map[uuid.UUID]bool{}}
	}
	return m.days[key]
}

func (m *models) post(r *events.Recorded, e events.PostImported) {
	t := m.threads[e.ThreadID]
	if t == nil {
		t = &threadModel{novel: e.NovelID, authors: map[uuid.UUID]bool{}, first: r.StreamID, firstAt: e.WrittenAt, firstSeen: r.RecordedAt}
		m.threads[e.ThreadID] = t
	}
	i, d := m.integration(e.IntegrationID, r.RecordedAt), m.day(e.WrittenAt, e.IntegrationID, e.NovelID)
	t.posts++
	i.posts++
	d.posts++
	if e.ParentPostID != nil {
		t.replies++
		i.replies++
	}
	if e.Comment != nil {
		id := events.AuthorID(e.IntegrationID, e.Comment.ExternalUUID)
		t.authors[id], i.authors[id], d.authors[id] = true, true, true
	}
	if e.WrittenAt.Before(t.firstAt) {
		t.first, t.firstAt = r.StreamID, e.WrittenAt
	}
	if !e.WrittenAt.Before(t.lastAt) {
		t.last, t.lastAt = r.StreamID, e.WrittenAt
	}
	if r.RecordedAt.Before(t.firstSeen) {
		t.firstSeen = r.RecordedAt
	}
	if r.RecordedAt.After(t.lastSeen) {
		t.lastSeen = r.RecordedAt
	}
}

func (m *models) novel(r *events.Recorded) {
	n := m.novels[r.StreamID]
	if n == nil {
		n = &novelModel{}
		m.novels[r.StreamID] = n
	}
	n.version++
	moderate := func(state string) { n.State, n.moderated, n.moderations = state, r.RecordedAt, n.moderations+1 }
	switch e := r.Event.(type) {
	case events.NovelCreated:
		n.NovelCreated, n.createdBy, n.created = e, e.OwnerID, r.RecordedAt
	case events.NovelUpdated:
		for _, change := range []struct{ from, to *string }{
			{e.Author, &n.Author}, {e.Synopsis, &n.Synopsis}, {e.CoverURL, &n.CoverURL}, {e.Language, &n.Language}, {e.ReadingStatus, &n.ReadingStatus},
		} {
			if change.from != nil {
				*change.to = *change.from
			}
		}
		if e.Genres != nil {
			n.Genres = *e.Genres
		}
		n.updated, n.updates = r.RecordedAt, n.updates+1
	case events.NovelPublished:
		moderate("published")
		n.OwnerID = nil
	case events.NovelApproved:
		moderate("approved")
	case events.NovelRejected:
		moderate("rejected")
	default: // no event of this stream
	}
	// Only partners' commands have such a source.
	text, isPartner := strings.CutPrefix(r.Source, "integrations/")
	if !isPartner {
		return
	}
	integration := uuid.MustParse(text[:36])
	i, d := m.integration(integration, r.RecordedAt), m.day(r.RecordedAt, integration, r.StreamID)
	switch r.Event.(type) {
	case events.NovelCreated:
		i.created++
		d.created++
	case events.NovelUpdated:
		i.updated++
		d.updated++
	default: // only these have a partner's source
	}
}

func (m *models) rows() map[string][]string {
	rows := map[string][]string{}
	add := func(table string, columns ...any) {
		text := make([]string, len(columns))
		for i, column := range columns {
			switch c := column.(type) {
			case time.Time:
				text[i] = fmt.Sprint(c.UnixMicro())
				if c.IsZero() {
					text[i] = "-"
				}
			case *uuid.UUID:
				text[i] = "-"
				if c != nil {
					text[i] = c.String()
				}
			default:
				text[i] = fmt.Sprint(c)
			}
		}
		rows[table] = append(rows[table], strings.Join(text, "|"))
	}
	for id, n := range m.novels {
		add("novels", id, n.Title, n.Slug, n.Author, optional(n.Synopsis), optional(n.CoverURL), strings.Join(n.Genres, ","), optional(n.Language),
			optional(n.ReadingStatus), n.State, n.OwnerID, n.createdBy, n.created, n.updated, n.updates, n.moderated, n.moderations, n.version)
	}
	for id, t := range m.threads {
		add("thread_activity", id, t.novel, t.posts, t.replies, len(t.authors), t.first, t.firstAt, t.last, t.lastAt, t.firstSeen, t.lastSeen)
	}
	for id, i := range m.integrations {
		add("integration_activity", id, i.posts, i.replies, len(i.authors), i.created, i.updated, i.first, i.last)
	}
	for key, d := range m.days {
		add("daily_facts", key.day, key.integration, key.novel, d.posts, len(d.authors), d.created, d.updated)
		for author := range d.authors {
			add("daily_authors", key.day, key.integration, key.novel, author)
		}
	}
	for _, table := range rows {
		slices.Sort(table)
	}
	return rows
}

// optional is what analysts see of a text that may be missing.
func optional(text string) string { return cmp.Or(text, "-") }
