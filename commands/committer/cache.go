package committer

import (
	_ "embed"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/events"
	"novelgate/events/eventlog"
)

//go:embed check.sql
var checkSQL string

// Sizes of the cache; together they take a few tens of megabytes at most.
const (
	cachedTitles   = 8192
	cachedComments = 65536
)

// cache has what comments need to be decided without a read: open novels with a thread, and the threads of comments,
// which never change. It holds as long as the log has the mark, and no decision has come since (see check.sql).
type cache struct {
	mark       eventlog.Mark                  // of the end of the log when the cache was right
	generation string                         // of the inline projections; see projections.ChangeInline
	titles     *lru.LRU[string, title]        // by folded title; without Title and Details
	threads    *lru.LRU[uuid.UUID, uuid.UUID] // of comments, by comment
}

func newCache() *cache {
	titles, _ := lru.NewLRU[string, title](cachedTitles, nil)           // fails only for a size below 1
	threads, _ := lru.NewLRU[uuid.UUID, uuid.UUID](cachedComments, nil) // as above
	return &cache{titles: titles, threads: threads}
}

// check queues the statement that reads the end of the log and whether the cache holds; if not, the cache is cleared.
// With authors the transaction fails if it does not hold, or if one of the authors is blocked.
func (c *cache) check(statements *pgx.Batch, st *state, authors []uuid.UUID) {
	statements.Queue(checkSQL, c.mark.Position, c.mark.Batch, c.generation, authors).QueryRow(func(row pgx.Row) error {
		var batch pgtype.UUID
		var generation string
		var holds bool
		if err := row.Scan(&st.end.Position, &batch, &generation, &holds, nil); err != nil {
			return err
		}
		st.end.Batch = batch.Bytes
		if !holds {
			c.titles.Purge()
			c.threads.Purge()
			c.mark, c.generation = eventlog.Mark{}, generation
		}
		return nil
	})
}

// lookUp fills a state from the cache. It returns false if a job is an upsert, its title is not cached, or its parent
// is neither cached nor an earlier job of the batch.
func (c *cache) lookUp(st *state, jobs []*job) bool {
	before := make(map[deliveryKey]bool, len(jobs))
	for _, j := range jobs {
		if !j.isComment() {
			return false
		}
		if st.titles[j.FoldedTitle] == nil {
			known, ok := c.titles.Get(j.FoldedTitle)
			if !ok {
				return false
			}
			st.titles[j.FoldedTitle] = &known
		}
		if parent, ok := j.parentKey(); ok {
			id := events.PostID(j.Caller.IntegrationID, parent.id)
			if threadID, ok := c.threads.Get(id); ok {
				st.parents[parent] = post.Parent{PostID: id, ThreadID: threadID}
			} else if !before[parent] {
				return false
			}
		}
		before[j.key] = true
	}
	return true
}

// learn adds what a committed attempt has read and decided.
func (c *cache) learn(st *state) {
	c.mark = st.end
	if n := len(st.decided); n > 0 {
		c.mark = eventlog.Mark{Position: st.end.Position + events.Position(n), Batch: st.id}
	}
	for folded, t := range st.titles {
		if t.novel.Open() && t.threadID != uuid.Nil {
			known := *t
			known.novel.Title, known.novel.Details = "", novel.Details{}
			c.titles.Add(folded, known)
		}
	}
	for _, comment := range st.parents {
		c.threads.Add(comment.PostID, comment.ThreadID)
	}
}
