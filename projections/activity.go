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
// Distinct authors are not counted here: views count them from the tables posts and authors.
//
// The tables are one projection because they derive from the same events: reading and decoding the log costs more than
// counting. They stop together, so they always agree. Go code adds up each batch, so that the database adds one row per
// thread and day rather than one per comment.
type Activity struct{}

// Name implements Projection.
func (Activity) Name() string { return "activity" }

// Generation implements Projection. 2: erasures remove authors; 3: authors are not counted any more; 4: novel_activity
// and chapter_activity; 5: edits move comments to other chapters.
func (Activity) Generation() int { return 5 }

// Tables implements Projection.
func (Activity) Tables() []string {
	return []string{
		"daily_facts", "thread_activity", "chapter_activity", "integration_activity", "novel_activity",
	}
}

// Streams implements Projection.
func (Activity) Streams() []string { return []string{events.NovelStream, events.PostStream} }

// Apply implements Projection.
func (Activity) Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	counted := activityCount{
		days: map[dayOfNovel]*dayCount{}, threads: map[uuid.UUID]*threadCount{},
		chapters: map[chapterOfThread]*chapterCount{}, integrations: map[uuid.UUID]*integrationCount{},
		novels: map[uuid.UUID]*novelTimes{},
	}
	for i := range batch {
		counted.add(&batch[i])
	}
	if len(counted.novels)+len(counted.integrations)+len(counted.chapters) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, activitySQL, counted.arguments()...); err != nil {
		return fmt.Errorf("count activity: %w", err)
	}
	return nil
}

// activityCount has the counts of a batch of events.
type activityCount struct {
	days         map[dayOfNovel]*dayCount
	threads      map[uuid.UUID]*threadCount
	chapters     map[chapterOfThread]*chapterCount
	novels       map[uuid.UUID]*novelTimes
	integrations map[uuid.UUID]*integrationCount
}

type (
	dayOfNovel struct {
		day                time.Time // its beginning, UTC: of the time written for comments, recorded for upserts
		integration, novel uuid.UUID
	}
	dayCount    struct{ posts, created, updated int32 }
	threadCount struct {
		novel                                                uuid.UUID
		posts, replies                                       int32
		firstPost, lastPost                                  uuid.UUID
		firstPostAt, lastPostAt, firstReceived, lastReceived time.Time
	}
	chapterOfThread struct {
		thread  uuid.UUID
		chapter string // decimal number
	}
	chapterCount     struct{ posts, replies int32 }
	novelTimes       struct{ created, posted time.Time } // zero when the batch has none
	integrationCount struct {
		posts, replies, created, updated int32
		first, last                      time.Time
	}
)

// add counts an event if it is relevant. Events come in log order.
func (c *activityCount) add(recorded *events.Recorded) {
	switch e := recorded.Event.(type) {
	case events.PostImported:
		c.addComment(recorded, &e)
	case events.PostEdited:
		c.moveChapter(&e)
	case events.NovelCreated:
		entry(c.novels, recorded.StreamID).created = recorded.RecordedAt
		if integration, day := c.integrationAndDay(recorded); integration != nil {
			integration.created++
			day.created++
		}
	case events.NovelUpdated:
		integration, day := c.integrationAndDay(recorded)
		if integration != nil {
			integration.updated++
			day.updated++
		}
	default: // not counted
	}
}

// integrationAndDay returns the two counts to which an event of a novel adds; nil for an action of staff.
func (c *activityCount) integrationAndDay(recorded *events.Recorded) (*integrationCount, *dayCount) {
	id, _ := events.SplitSource(recorded.Source)
	if !id.Valid {
		return nil, nil
	}
	return c.integration(id.UUID, recorded.RecordedAt), c.day(recorded.RecordedAt, id.UUID, recorded.StreamID)
}

// noChapter is the chapter_number of comments on the novel as a whole.
const noChapter = "-1"

func (c *activityCount) addComment(recorded *events.Recorded, e *events.PostImported) {
	// Truncate to the precision of the database, so that Go finds the same ties as SQL.
	at := e.WrittenAt.Truncate(time.Microsecond)
	integration := c.integration(e.IntegrationID, recorded.RecordedAt)
	chapter := entry(c.chapters, chapterOfThread{e.ThreadID, cmp.Or(string(e.ChapterNumber), noChapter)})
	thread := c.threads[e.ThreadID]
	if thread == nil {
		thread = &threadCount{
			novel: e.NovelID, firstPost: recorded.StreamID, firstPostAt: at, firstReceived: recorded.RecordedAt,
		}
		c.threads[e.ThreadID] = thread
	}
	c.day(at, e.IntegrationID, e.NovelID).posts++
	integration.posts++
	chapter.posts++
	thread.posts++
	if e.ParentPostID != nil {
		integration.replies++
		chapter.replies++
		thread.replies++
	}
	novel := entry(c.novels, e.NovelID)
	// Whole minutes, so that a busy discussion moves in the index of novel_activity once a minute at most.
	novel.posted = latest(novel.posted, at.Truncate(time.Minute))
	thread.lastReceived = latest(thread.lastReceived, recorded.RecordedAt)
	thread.firstReceived = earliest(thread.firstReceived, recorded.RecordedAt)
	if at.Before(thread.firstPostAt) {
		thread.firstPost, thread.firstPostAt = recorded.StreamID, at
	}
	if !at.Before(thread.lastPostAt) {
		thread.lastPost, thread.lastPostAt = recorded.StreamID, at
	}
}

// moveChapter counts a comment on its new chapter instead of the former one.
func (c *activityCount) moveChapter(e *events.PostEdited) {
	if string(e.Chapter) == string(e.FormerChapter) {
		return
	}
	former := entry(c.chapters, chapterOfThread{e.ThreadID, cmp.Or(string(e.FormerChapter), noChapter)})
	chapter := entry(c.chapters, chapterOfThread{e.ThreadID, cmp.Or(string(e.Chapter), noChapter)})
	former.posts--
	chapter.posts++
	if e.IsReply {
		former.replies--
		chapter.replies++
	}
}

// entry returns the count of a key. It adds an empty one if there is none.
func entry[K comparable, C any](counts map[K]*C, key K) *C {
	count := counts[key]
	if count == nil {
		count = new(C)
		counts[key] = count
	}
	return count
}

// integration returns the count of an integration, with the time of an event that is counted.
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
	return entry(c.days, dayOfNovel{at.UTC().Truncate(24 * time.Hour), integration, novel})
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
	return slices.Concat(c.dayArguments(), c.threadArguments(), c.integrationArguments(), c.chapterArguments(),
		c.novelArguments())
}

func (c *activityCount) dayArguments() []any {
	n := len(c.days)
	days, integrations, novels := make(pgtype.FlatArray[pgtype.Date], n), make(uuidColumn, n), make(uuidColumn, n)
	posts, created, updated := make(intColumn, n), make(intColumn, n), make(intColumn, n)
	for i, key := range slices.SortedFunc(maps.Keys(c.days), func(a, b dayOfNovel) int {
		return cmp.Or(a.day.Compare(b.day), compareIDs(a.integration, b.integration), compareIDs(a.novel, b.novel))
	}) {
		days[i] = pgtype.Date{Time: key.day, Valid: true}
		integrations[i], novels[i] = pgUUID(key.integration), pgUUID(key.novel)
		count := c.days[key]
		posts[i], created[i], updated[i] = count.posts, count.created, count.updated
	}
	return []any{days, integrations, novels, posts, created, updated}
}

func (c *activityCount) threadArguments() []any {
	n := len(c.threads)
	ids, novels, posts, replies := make(uuidColumn, n), make(uuidColumn, n), make(intColumn, n), make(intColumn, n)
	first, last := make(uuidColumn, n), make(uuidColumn, n)
	firstAt, lastAt := make(timeColumn, n), make(timeColumn, n)
	firstReceived, lastReceived := make(timeColumn, n), make(timeColumn, n)
	for i, id := range slices.SortedFunc(maps.Keys(c.threads), compareIDs) {
		t := c.threads[id]
		ids[i], novels[i], posts[i], replies[i] = pgUUID(id), pgUUID(t.novel), t.posts, t.replies
		first[i], firstAt[i], last[i], lastAt[i] = pgUUID(t.firstPost), t.firstPostAt, pgUUID(t.lastPost), t.lastPostAt
		firstReceived[i], lastReceived[i] = t.firstReceived, t.lastReceived
	}
	return []any{ids, novels, posts, replies, first, firstAt, last, lastAt, firstReceived, lastReceived}
}

func (c *activityCount) integrationArguments() []any {
	n := len(c.integrations)
	ids, first, last := make(uuidColumn, n), make(timeColumn, n), make(timeColumn, n)
	posts, replies, created, updated := make(intColumn, n), make(intColumn, n), make(intColumn, n), make(intColumn, n)
	for i, id := range slices.SortedFunc(maps.Keys(c.integrations), compareIDs) {
		count := c.integrations[id]
		ids[i], first[i], last[i] = pgUUID(id), count.first, count.last
		posts[i], replies[i], created[i], updated[i] = count.posts, count.replies, count.created, count.updated
	}
	return []any{ids, posts, replies, created, updated, first, last}
}

func (c *activityCount) chapterArguments() []any {
	n := len(c.chapters)
	threads, chapters, posts, replies := make(uuidColumn, n), make([]string, n), make(intColumn, n), make(intColumn, n)
	i := 0
	for key, count := range c.chapters { // the statement sorts them by number
		threads[i], chapters[i], posts[i], replies[i] = pgUUID(key.thread), key.chapter, count.posts, count.replies
		i++
	}
	return []any{threads, chapters, posts, replies}
}

func (c *activityCount) novelArguments() []any {
	n := len(c.novels)
	ids := make(uuidColumn, n)
	created, posted := make(pgtype.FlatArray[pgtype.Timestamptz], n), make(pgtype.FlatArray[pgtype.Timestamptz], n)
	for i, id := range slices.SortedFunc(maps.Keys(c.novels), compareIDs) {
		ids[i], created[i], posted[i] = pgUUID(id), orNever(c.novels[id].created), orNever(c.novels[id].posted)
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
