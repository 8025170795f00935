package committer

import (
	_ "embed"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/events"
	"novelgate/internal/database"
)

//go:embed check_cache.sql
var checkCacheSQL string

// staleCache is the SQLSTATE with which check_cache.sql fails.
const staleCache = "NG001"

// Limits of the caches of a lane; each keeps up to twice as many entries. Together they take a few megabytes, or tens
// of megabytes with the longest titles.
const (
	cachedTitles   = 4096
	cachedComments = 32768
	cachedBlocked  = 4096
)

// listedChanges limits the changed titles that a check lists. A check that reaches the limit clears the cache of titles.
const listedChanges = 32

// titleCache is the cache of a lane, which lets the fast path read nothing: titles that accept comments, and the
// threads of the latest comments. A comment never moves to another thread. check_cache.sql finds the titles that may
// have changed since the last check. See docs/decisions/0013-fast-path.md.
type titleCache struct {
	epoch    int64           // see connectionEpoch
	server   database.Server // of the connection that the lane used last
	position events.Position // the cache reflects all events before it
	version  tableVersion
	titles   lru[string, title]        // by folded title; without Title and Details
	threads  lru[uuid.UUID, uuid.UUID] // of comments, by comment
	blocked  lru[uuid.UUID, struct{}]  // blocked authors; their comments take the plain path
}

// tableVersion changes when the rows of title_lookup may have changed without an event.
type tableVersion struct {
	oid       uint32      // of the table title_lookup, which a rebuild replaces
	foldTable pgtype.Text // hash of the Unicode table by which titles were folded
}

func newTitleCache() *titleCache {
	return &titleCache{
		titles: newLRU[string, title](cachedTitles), threads: newLRU[uuid.UUID, uuid.UUID](cachedComments),
		blocked: newLRU[uuid.UUID, struct{}](cachedBlocked),
	}
}

// usedMark marks a connection that a lane has used.
const usedMark = "novelgate committer"

// connectionEpoch counts the connections that lanes have used. A crash of the database ends all connections. After it,
// data that lanes have read may be lost, and ids of transactions that wrote nothing to disk are used again. So a new
// connection clears the caches of all lanes.
func (c *Committer) connectionEpoch(conn *pgconn.PgConn) int64 {
	if _, used := conn.CustomData()[usedMark]; !used {
		conn.CustomData()[usedMark] = true
		return c.connections.Add(1)
	}
	return c.connections.Load()
}

// begin clears the cache if there is a new connection, or if the next batch uses another server than the last one:
// after a failover a lane may still have connections to the old primary.
func (c *titleCache) begin(epoch int64, server database.Server) {
	if c.epoch != epoch || c.server != server {
		c.clear()
		c.epoch, c.server, c.position = epoch, server, 0
	}
}

func (c *titleCache) clear() {
	c.titles.clear()
	c.threads.clear()
}

// check queues the statement that invalidates the cache. If st.cached lists titles, the statement also fails the
// transaction when one of them may have changed or one of the authors is blocked.
func (c *titleCache) check(statements *pgx.Batch, st *state, authors []uuid.UUID) {
	statements.Queue(checkCacheSQL, c.position, listedChanges, st.cached, authors, c.version.oid,
		c.version.foldTable).QueryRow(func(row pgx.Row) error {
		var position events.Position
		var version tableVersion
		if err := row.Scan(&position, &version.oid, &version.foldTable, &st.changed, nil); err != nil {
			return err
		}
		c.invalidate(position, version, st.changed)
		return nil
	})
}

func (c *titleCache) invalidate(position events.Position, version tableVersion, changed []string) {
	if version != c.version {
		c.clear()
	}
	if len(changed) >= listedChanges {
		c.titles.clear()
	}
	for _, folded := range changed {
		c.titles.remove(folded)
	}
	c.position, c.version = position, version
}

// lookUp fills a state from the cache. It fails with errNotCached if a job is an upsert, its title is not cached, its
// author is known to be blocked, or its parent is neither cached nor an earlier job of the batch.
func (c *titleCache) lookUp(st *state, jobs []*job) error {
	before := make(map[deliveryKey]struct{}, len(jobs))
	for _, j := range jobs {
		if !j.isComment() {
			return errNotCached
		}
		if st.titles[j.FoldedTitle] == nil {
			cached, ok := c.titles.get(j.FoldedTitle)
			if !ok {
				return errNotCached
			}
			st.titles[j.FoldedTitle] = &cached
			st.cached = append(st.cached, j.FoldedTitle)
		}
		if parent, ok := j.parentKey(); ok {
			id := events.PostID(j.Caller.IntegrationID, parent.id)
			if threadID, ok := c.threads.get(id); ok {
				st.parents[parent] = post.Parent{PostID: id, ThreadID: threadID}
			} else if _, ok := before[parent]; !ok {
				return errNotCached
			}
		}
		if _, ok := c.blocked.get(j.author); ok {
			return errNotCached
		}
		before[j.key] = struct{}{}
	}
	return nil
}

// addTitle caches a title if its novel is open and has a thread, so that a comment needs no other event. It skips a
// title that the check has listed.
func (c *titleCache) addTitle(st *state, folded string, t title) {
	if !t.novel.Open() || t.threadID == uuid.Nil || len(st.changed) >= listedChanges ||
		slices.Contains(st.changed, folded) {
		return
	}
	t.novel.Title, t.novel.Details = "", novel.Details{}
	c.titles.put(folded, t)
}

// addComments caches the threads of committed comments and of their parents.
func (c *titleCache) addComments(st *state) {
	for _, comment := range st.parents {
		c.threads.put(comment.PostID, comment.ThreadID)
	}
}

// lru is an approximate LRU cache: it keeps at least the limit most recently used entries, and at most twice as many.
type lru[K comparable, V any] struct {
	limit      int
	young, old map[K]V // when young is full, it replaces old
}

func newLRU[K comparable, V any](limit int) lru[K, V] {
	return lru[K, V]{limit: limit, young: map[K]V{}}
}

// get returns an entry and marks it as recently used.
func (r *lru[K, V]) get(key K) (V, bool) {
	if value, ok := r.young[key]; ok {
		return value, true
	}
	value, ok := r.old[key]
	if ok {
		r.put(key, value)
	}
	return value, ok
}

func (r *lru[K, V]) put(key K, value V) {
	if len(r.young) >= r.limit {
		r.young, r.old = make(map[K]V, r.limit), r.young
	}
	r.young[key] = value
}

func (r *lru[K, V]) remove(key K) {
	delete(r.young, key)
	delete(r.old, key)
}

func (r *lru[K, V]) clear() { r.young, r.old = map[K]V{}, nil }
