package projections

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
	"novelgate/internal/database"
)

//go:embed activity.sql
var activitySQL string

// Activity is the projection activity: counts of deliveries of partners, per thread (thread_activity) and chapter
// (chapter_activity), per integration (integration_activity) and per UTC day, integration and novel (daily_facts), and
// the times when each novel was created and last commented on (novel_activity). Imported novels and comments count even
// if they are hidden, rejected or erased later. Of staff actions only the creation of novels counts, in novel_activity.
// Views count distinct authors in posts and authors.
//
// The tables are one projection because they derive from the same events: reading and decoding the log costs more than
// counting. They stop together, so they always agree. Go code adds up each batch, so that the database adds one row per
// thread and day rather than one per comment. A count does not show which events it includes; activity_applied stores
// the position up to which all are included.
type Activity struct{}

// Name implements Projection.
func (Activity) Name() string { return "activity" }

// Generation implements Projection. Since 2: authors are erased; since 3: no distinct authors;
// since 4: novel_activity and chapter_activity.
func (Activity) Generation() int { return 4 }

// Tables implements Projection.
func (Activity) Tables() []string {
	return []string{
		"activity_applied", "daily_facts", "thread_activity", "chapter_activity", "integration_activity", "novel_activity",
	}
}

// Streams implements Projection.
func (Activity) Streams() []string { return []string{events.NovelStream, events.PostStream} }

// Apply implements Projection. It counts nothing of a batch that was counted before, and fails for a batch that was
// counted in part.
func (Activity) Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	counted := activityCount{
		days: map[dayOfNovel]*dayCount{}, threads: map[uuid.UUID]*threadCount{},
		chapters: map[chapterOfThread]*chapterCount{}, integrations: map[uuid.UUID]*integrationCount{},
		novels: map[uuid.UUID]*novelMoments{},
	}
	for i := range batch {
		counted.add(&batch[i])
	}
	if counted.first == (events.Position{}) {
		return nil
	}
	if _, err := tx.Exec(ctx, activitySQL, counted.arguments()...); err != nil {
		return fmt.Errorf("count activity: %w", err)
	}
	return nil
}

// activityCount has the counts of a batch of events.
type activityCount struct {
	first, last  events.Position // of the counted events; zero when there are none
	days         map[dayOfNovel]*dayCount
	threads      map[uuid.UUID]*threadCount
	chapters     map[chapterOfThread]*chapterCount
	novels       map[uuid.UUID]*novelMoments
	integrations map[uuid.UUID]*integrationCount
}

type (
	dayOfNovel struct {
		day                int64 // UTC, in days since 1970
		integration, novel uuid.UUID
	}
	dayCount    struct{ posts, created, updated int32 }
	threadCount struct {
		novel                                            uuid.UUID
		posts, replies                                   int32
		firstPost, lastPost                              uuid.UUID
		firstPostAt, lastPostAt, firstReceived, received time.Time
	}
	chapterOfThread struct {
		thread  uuid.UUID
		chapter string // decimal number
	}
	chapterCount     struct{ posts, replies int32 }
	novelMoments     struct{ created, posted time.Time } // zero when the batch has none
	integrationCount struct {
		posts, replies, created, updated int32
		first, last                      time.Time
	}
)

// add counts an event if it is relevant. Events come in log order.
func (c *activityCount) add(recorded *events.Recorded) {
	switch e := recorded.Event.(type) {
	case events.PostImported:
		c.comment(recorded, &e)
	case events.NovelCreated, events.NovelUpdated:
		_, created := e.(events.NovelCreated)
		if created {
			c.novel(recorded.StreamID).created = recorded.RecordedAt
		}
		integration, _ := events.SplitSource(recorded.Source)
		if !integration.Valid { // an action of staff
			if !created {
				return
			}
			break
		}
		of := c.integration(integration.UUID, recorded.RecordedAt)
		on := c.day(recorded.RecordedAt, integration.UUID, recorded.StreamID)
		if created {
			of.created++
			on.created++
		} else {
			of.updated++
			on.updated++
		}
	default: // not counted
		return
	}
	if c.first == (events.Position{}) {
		c.first = recorded.Position
	}
	c.last = recorded.Position
}

func (c *activityCount) comment(recorded *events.Recorded, e *events.PostImported) {
	// At the precision of the database, two times may be equal.
	at := e.WrittenAt.Truncate(time.Microsecond)
	of, in := c.integration(e.IntegrationID, recorded.RecordedAt), c.threads[e.ThreadID]
	if in == nil {
		in = &threadCount{novel: e.NovelID, firstPost: recorded.StreamID, firstPostAt: at, firstReceived: recorded.RecordedAt}
		c.threads[e.ThreadID] = in
	}
	on := c.chapter(e)
	c.day(at, e.IntegrationID, e.NovelID).posts++
	of.posts++
	in.posts++
	on.posts++
	if e.ParentPostID != nil {
		of.replies++
		in.replies++
		on.replies++
	}
	n := c.novel(e.NovelID)
	n.posted = latest(n.posted, at.Truncate(time.Minute))
	in.received = latest(in.received, recorded.RecordedAt)
	in.firstReceived = earliest(in.firstReceived, recorded.RecordedAt)
	if at.Before(in.firstPostAt) {
		in.firstPost, in.firstPostAt = recorded.StreamID, at
	}
	if !at.Before(in.lastPostAt) {
		in.lastPost, in.lastPostAt = recorded.StreamID, at
	}
}

func (c *activityCount) novel(id uuid.UUID) *novelMoments {
	n := c.novels[id]
	if n == nil {
		n = &novelMoments{}
		c.novels[id] = n
	}
	return n
}

// noChapter is the chapter_number of comments on the novel as a whole.
const noChapter = "-1"

func (c *activityCount) chapter(e *events.PostImported) *chapterCount {
	key := chapterOfThread{e.ThreadID, cmp.Or(string(e.ChapterNumber), noChapter)}
	found := c.chapters[key]
	if found == nil {
		found = &chapterCount{}
		c.chapters[key] = found
	}
	return found
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

const secondsPerDay = 24 * 60 * 60

func (c *activityCount) day(at time.Time, integration, novel uuid.UUID) *dayCount {
	day := at.Unix() / secondsPerDay
	if at.Unix()%secondsPerDay < 0 {
		day--
	}
	key := dayOfNovel{day, integration, novel}
	d := c.days[key]
	if d == nil {
		d = &dayCount{}
		c.days[key] = d
	}
	return d
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

// arguments returns the parameters of activitySQL. Rows are in the order of their keys, so that neighbours in an index
// are updated together.
func (c *activityCount) arguments() []any {
	type (
		uuids = pgtype.FlatArray[pgtype.UUID]
		times = pgtype.FlatArray[time.Time]
		ints  = pgtype.FlatArray[int32]
	)
	n := len(c.days)
	on, of, about := make(pgtype.FlatArray[pgtype.Date], n), make(uuids, n), make(uuids, n)
	posts, created, updated := make(ints, n), make(ints, n), make(ints, n)
	for i, key := range slices.SortedFunc(maps.Keys(c.days), func(a, b dayOfNovel) int {
		return cmp.Or(cmp.Compare(a.day, b.day), compareIDs(a.integration, b.integration), compareIDs(a.novel, b.novel))
	}) {
		on[i] = pgtype.Date{Time: time.Unix(key.day*secondsPerDay, 0).UTC(), Valid: true}
		of[i], about[i] = present(key.integration), present(key.novel)
		d := c.days[key]
		posts[i], created[i], updated[i] = d.posts, d.created, d.updated
	}
	arguments := []any{
		pgtype.Uint64{Uint64: c.first.TransactionID, Valid: true},
		c.first.Ordinal,
		pgtype.Uint64{Uint64: c.last.TransactionID, Valid: true},
		c.last.Ordinal,
		on, of, about, posts, created, updated,
	}

	n = len(c.threads)
	threads, novels, first, last := make(uuids, n), make(uuids, n), make(uuids, n), make(uuids, n)
	imported, replies := make(ints, n), make(ints, n)
	firstAt, lastAt, firstReceived, received := make(times, n), make(times, n), make(times, n), make(times, n)
	for i, id := range slices.SortedFunc(maps.Keys(c.threads), compareIDs) {
		t := c.threads[id]
		threads[i], novels[i], imported[i], replies[i] = present(id), present(t.novel), t.posts, t.replies
		first[i], firstAt[i], last[i], lastAt[i] = present(t.firstPost), t.firstPostAt, present(t.lastPost), t.lastPostAt
		firstReceived[i], received[i] = t.firstReceived, t.received
	}
	arguments = append(arguments,
		threads, novels, imported, replies, first, firstAt, last, lastAt, firstReceived, received)

	n = len(c.integrations)
	ids, begun, ended := make(uuids, n), make(times, n), make(times, n)
	delivered, answers, made, changed := make(ints, n), make(ints, n), make(ints, n), make(ints, n)
	for i, id := range slices.SortedFunc(maps.Keys(c.integrations), compareIDs) {
		of := c.integrations[id]
		ids[i], delivered[i], answers[i], made[i], changed[i] = present(id), of.posts, of.replies, of.created, of.updated
		begun[i], ended[i] = of.first, of.last
	}
	arguments = append(arguments, ids, delivered, answers, made, changed, begun, ended)
	return slices.Concat(arguments, c.chapterArguments(), c.novelArguments())
}

func (c *activityCount) chapterArguments() []any {
	n := len(c.chapters)
	threads, chapters := make(pgtype.FlatArray[pgtype.UUID], n), make(pgtype.FlatArray[string], n)
	posts, replies := make(pgtype.FlatArray[int32], n), make(pgtype.FlatArray[int32], n)
	i := 0
	for key, count := range c.chapters { // the statement sorts them by number
		threads[i], chapters[i], posts[i], replies[i] = present(key.thread), key.chapter, count.posts, count.replies
		i++
	}
	return []any{threads, chapters, posts, replies}
}

func (c *activityCount) novelArguments() []any {
	n := len(c.novels)
	ids := make(pgtype.FlatArray[pgtype.UUID], n)
	created, posted := make(pgtype.FlatArray[pgtype.Timestamptz], n), make(pgtype.FlatArray[pgtype.Timestamptz], n)
	for i, id := range slices.SortedFunc(maps.Keys(c.novels), compareIDs) {
		ids[i], created[i], posted[i] = present(id), orNever(c.novels[id].created), orNever(c.novels[id].posted)
	}
	return []any{ids, created, posted}
}

// orNever converts a time; the zero time becomes -infinity.
func orNever(t time.Time) pgtype.Timestamptz {
	if t.IsZero() {
		return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	}
	return pgtype.Timestamptz{Time: t, Valid: true}
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }
