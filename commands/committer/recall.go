package committer

import (
	_ "embed"
	"errors"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/events"
)

//go:embed read_news.sql
var readNewsSQL string

// memoryRefused is the SQLSTATE with which read_news.sql fails.
const memoryRefused = "NG001"

// errOutdated ends an attempt that has recalled what the lane has now heard to have changed.
var errOutdated = errors.New("what was remembered has changed")

// recall fills in the titles and parents of comments that the lane remembers, and reports whether that is all there is
// to know.
func (st *state) recall(jobs []*job) (all bool) {
	upserted := map[string]bool{} // which is decided on more than is remembered
	for _, j := range jobs {
		if j.novel != nil {
			upserted[j.folded] = true
		}
	}
	all = len(upserted) == 0
	before := make(map[ref]struct{}, len(jobs))
	for _, j := range jobs {
		if st.titles[j.folded] == nil && !upserted[j.folded] {
			if t, ok := st.memory.titles.get(j.folded); ok {
				st.titles[j.folded] = new(*t)
				st.recalled = append(st.recalled, j.folded)
			} else {
				all = false
			}
		}
		if parent, ok := j.parentRef(); ok {
			id := events.PostID(j.caller.IntegrationID, parent.id)
			if threadID, ok := st.memory.threads.get(id); ok {
				st.parents[parent] = post.Parent{PostID: id, ThreadID: threadID}
			} else if _, ok := before[parent]; !ok {
				all = false
			}
		}
		if _, ok := st.memory.blocked.get(j.author); ok {
			all = false
		}
		before[j.ref] = struct{}{}
	}
	return all
}

// queueNews asks what of the memory may have changed. Whatever else is read comes after it and is as new or newer. The
// transaction of a state that was recalled as a whole fails if that matters, or if a comment is by an author who is
// blocked.
func queueNews(batch *pgx.Batch, st *state, jobs []*job) {
	m := st.memory
	var titles []string
	var authors []uuid.UUID
	if st.unread {
		titles, authors = st.recalled, authorsOf(jobs)
	}
	settled := pgtype.Uint64{Uint64: m.settled, Valid: true}
	batch.Queue(readNewsSQL, settled, newsLimit, titles, authors, m.epoch.table, m.epoch.foldTable).QueryRow(func(
		row pgx.Row,
	) error {
		n := &st.news
		if err := row.Scan(&settled, &n.epoch.table, &n.epoch.foldTable, &n.titles, nil); err != nil {
			return err
		}
		n.settled = settled.Uint64
		m.hear(n)
		if !st.unread && !st.stillRemembered() { // what was not read was checked by the statement
			return errOutdated
		}
		return nil
	})
}

// stillRemembered reports whether the lane trusts all that was recalled.
func (st *state) stillRemembered() bool {
	for _, folded := range st.recalled {
		if _, ok := st.memory.titles.get(folded); !ok {
			return false
		}
	}
	for _, parent := range st.parents {
		if _, ok := st.memory.threads.get(parent.PostID); !ok {
			return false
		}
	}
	return true
}

// remember keeps a title that was read, if it has a thread: opening one would not be in the news. What was in the news
// may be again until the transaction is settled.
func (st *state) remember(folded string, t *title) {
	changing := st.news.titles
	if st.memory == nil || !t.thread.Exists() || len(changing) >= newsLimit || slices.Contains(changing, folded) {
		return
	}
	kept := *t
	kept.novel.Title, kept.novel.Details = "", novel.Details{} // no comment is decided on them
	st.memory.titles.put(folded, &kept)
}

// rememberComments keeps where the comments of a batch that was committed are, and those that they answer.
func (st *state) rememberComments() {
	if st.memory == nil {
		return
	}
	for _, comment := range st.parents {
		st.memory.threads.put(comment.PostID, comment.ThreadID)
	}
}
