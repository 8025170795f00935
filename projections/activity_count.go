package projections

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"novelgate/events"
)

// activityCount is what a batch of events comes to.
type activityCount struct {
	first, last  events.Position // of the events that count; zero when there are none
	present      map[presence]presenceOf
	days         map[dayOfNovel]*dayCount
	threads      map[uuid.UUID]*threadCount
	integrations map[uuid.UUID]*integrationCount
}

type (
	// presence says that an author wrote on a novel on a day.
	presence struct {
		author, novel uuid.UUID
		day           day
	}
	// presenceOf is what goes with it: an author belongs to one integration, a novel has one thread.
	presenceOf struct{ integration, thread uuid.UUID }

	dayOfNovel struct {
		day                day
		integration, novel uuid.UUID
	}
	dayCount    struct{ posts, created, updated int32 }
	threadCount struct {
		novel                                            uuid.UUID
		posts, replies                                   int32
		firstPost, lastPost                              uuid.UUID
		firstPostAt, lastPostAt, firstReceived, received time.Time
	}
	integrationCount struct {
		posts, replies, created, updated int32
		first, last                      time.Time
	}
)

// day is a UTC day, in days since 1970.
type day int32

const secondsPerDay = 24 * 60 * 60

func dayOf(t time.Time) day {
	days := t.Unix() / secondsPerDay
	if t.Unix()%secondsPerDay < 0 {
		days--
	}
	return day(days) //nolint:gosec // years have four digits
}

func (d day) time() time.Time { return time.Unix(int64(d)*secondsPerDay, 0).UTC() }

func newActivityCount() *activityCount {
	return &activityCount{
		present: map[presence]presenceOf{}, days: map[dayOfNovel]*dayCount{},
		threads: map[uuid.UUID]*threadCount{}, integrations: map[uuid.UUID]*integrationCount{},
	}
}

// add counts an event, if it is one that counts. Events come in log order.
func (c *activityCount) add(recorded *events.Recorded) {
	switch e := recorded.Event.(type) {
	case events.PostImported:
		c.comment(recorded, &e)
	case events.NovelCreated, events.NovelUpdated:
		integration, _ := events.SplitSource(recorded.Source)
		if !integration.Valid {
			return // staff did it
		}
		of := c.integration(integration.UUID, recorded.RecordedAt)
		on := c.day(recorded.RecordedAt, integration.UUID, recorded.StreamID)
		if _, created := e.(events.NovelCreated); created {
			of.created++
			on.created++
		} else {
			of.updated++
			on.updated++
		}
	default: // nothing to count
		return
	}
	if c.first == (events.Position{}) {
		c.first = recorded.Position
	}
	c.last = recorded.Position
}

func (c *activityCount) comment(recorded *events.Recorded, e *events.PostImported) {
	// Two instants within what the database tells apart are one.
	at := e.WrittenAt.Truncate(time.Microsecond)
	of, on := c.integration(e.IntegrationID, recorded.RecordedAt), c.day(at, e.IntegrationID, e.NovelID)
	in := c.threads[e.ThreadID]
	if in == nil {
		in = &threadCount{novel: e.NovelID, firstPost: recorded.StreamID, firstPostAt: at, firstReceived: recorded.RecordedAt}
		c.threads[e.ThreadID] = in
	}
	of.posts++
	on.posts++
	in.posts++
	if e.ParentPostID != nil {
		of.replies++
		in.replies++
	}
	in.received = latest(in.received, recorded.RecordedAt)
	in.firstReceived = earliest(in.firstReceived, recorded.RecordedAt)
	if at.Before(in.firstPostAt) {
		in.firstPost, in.firstPostAt = recorded.StreamID, at
	}
	if !at.Before(in.lastPostAt) {
		in.lastPost, in.lastPostAt = recorded.StreamID, at
	}
	if e.Comment != nil {
		key := presence{events.AuthorID(e.IntegrationID, e.Comment.ExternalUUID), e.NovelID, dayOf(at)}
		c.present[key] = presenceOf{e.IntegrationID, e.ThreadID}
	}
}

func (c *activityCount) integration(id uuid.UUID, at time.Time) *integrationCount {
	i := c.integrations[id]
	if i == nil {
		i = &integrationCount{first: at, last: at}
		c.integrations[id] = i
	}
	i.first, i.last = earliest(i.first, at), latest(i.last, at)
	return i
}

func (c *activityCount) day(at time.Time, integration, novel uuid.UUID) *dayCount {
	key := dayOfNovel{dayOf(at), integration, novel}
	d := c.days[key]
	if d == nil {
		d = &dayCount{}
		c.days[key] = d
	}
	return d
}

// presences lists who was present, in the order of the table's index.
func (c *activityCount) presences() []presence {
	return slices.SortedFunc(maps.Keys(c.present), func(a, b presence) int {
		return cmp.Or(bytes.Compare(a.author[:], b.author[:]), bytes.Compare(a.novel[:], b.novel[:]),
			cmp.Compare(a.day, b.day))
	})
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
