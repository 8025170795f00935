package projections

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// The types of columns that pgx encodes without looking at each value's type.
type (
	uuids = pgtype.FlatArray[pgtype.UUID]
	dates = pgtype.FlatArray[pgtype.Date]
	times = pgtype.FlatArray[time.Time]
	ints  = pgtype.FlatArray[int32]
	bools = pgtype.FlatArray[bool]
)

// arguments are the parameters of activitySQL.
func (c *activityCount) arguments() []any {
	arguments := []any{
		pgtype.Uint64{Uint64: c.first.TransactionID, Valid: true},
		c.first.Ordinal,
		pgtype.Uint64{Uint64: c.last.TransactionID, Valid: true},
		c.last.Ordinal,
	}
	arguments = append(arguments, c.presenceColumns()...)
	arguments = append(arguments, c.dayColumns()...)
	arguments = append(arguments, c.threadColumns()...)
	return append(arguments, c.integrationColumns()...)
}

func (c *activityCount) presenceColumns() []any {
	n := len(c.present)
	authors, novels, integrations, threads := make(uuids, n), make(uuids, n), make(uuids, n), make(uuids, n)
	on, first, firstOnNovel := make(dates, n), make(bools, n), make(bools, n)
	var before presence
	for i, p := range c.presences() {
		of := c.present[p]
		authors[i], novels[i], on[i] = present(p.author), present(p.novel), date(p.day)
		integrations[i], threads[i] = present(of.integration), present(of.thread)
		first[i] = i == 0 || p.author != before.author
		firstOnNovel[i] = first[i] || p.novel != before.novel
		before = p
	}
	return []any{authors, novels, on, integrations, threads, first, firstOnNovel}
}

func (c *activityCount) dayColumns() []any {
	n := len(c.days)
	on, integrations, novels := make(dates, 0, n), make(uuids, 0, n), make(uuids, 0, n)
	posts, created, updated := make(ints, 0, n), make(ints, 0, n), make(ints, 0, n)
	for key, d := range c.days {
		on, integrations, novels = append(on, date(key.day)), append(integrations, present(key.integration)),
			append(novels, present(key.novel))
		posts, created, updated = append(posts, d.posts), append(created, d.created), append(updated, d.updated)
	}
	return []any{on, integrations, novels, posts, created, updated}
}

func (c *activityCount) threadColumns() []any {
	n := len(c.threads)
	threads, novels, first, last := make(uuids, 0, n), make(uuids, 0, n), make(uuids, 0, n), make(uuids, 0, n)
	posts, replies := make(ints, 0, n), make(ints, 0, n)
	firstAt, lastAt, firstReceived, received := make(times, 0, n), make(times, 0, n), make(times, 0, n), make(times, 0, n)
	for id, t := range c.threads {
		threads, novels = append(threads, present(id)), append(novels, present(t.novel))
		posts, replies = append(posts, t.posts), append(replies, t.replies)
		first, firstAt = append(first, present(t.firstPost)), append(firstAt, t.firstPostAt)
		last, lastAt = append(last, present(t.lastPost)), append(lastAt, t.lastPostAt)
		firstReceived, received = append(firstReceived, t.firstReceived), append(received, t.received)
	}
	return []any{threads, novels, posts, replies, first, firstAt, last, lastAt, firstReceived, received}
}

func (c *activityCount) integrationColumns() []any {
	n := len(c.integrations)
	ids, first, last := make(uuids, 0, n), make(times, 0, n), make(times, 0, n)
	posts, replies, created, updated := make(ints, 0, n), make(ints, 0, n), make(ints, 0, n), make(ints, 0, n)
	for id, i := range c.integrations {
		ids, posts, replies = append(ids, present(id)), append(posts, i.posts), append(replies, i.replies)
		created, updated = append(created, i.created), append(updated, i.updated)
		first, last = append(first, i.first), append(last, i.last)
	}
	return []any{ids, posts, replies, created, updated, first, last}
}

func date(d day) pgtype.Date { return pgtype.Date{Time: d.time(), Valid: true} }
