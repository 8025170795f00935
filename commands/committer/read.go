package committer

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/aggregates/thread"
	"novelgate/commands/ratelimit"
	"novelgate/events"
	"novelgate/internal/database"
	titles "novelgate/internal/title"
)

var (
	//go:embed read_titles.sql
	readTitlesSQL string
	//go:embed read_keys.sql
	readKeysSQL string
	//go:embed read_slugs.sql
	readSlugsSQL string
	//go:embed read_blocked.sql
	readBlockedSQL string
)

// load reads what jobs are decided on, unless the lane remembers all of it: one round trip, and one more when novels
// are going to be created. The statements may see different moments. That does no harm: whatever changes after it was
// read and matters is a unique violation when it is written.
func (r *run) load(ctx context.Context, q database.DB, st *state, jobs []*job) error {
	batch := &pgx.Batch{}
	if st.memory != nil {
		all := st.recall(jobs)
		if st.unread = st.unread && st.presumed && all; st.unread {
			return nil
		}
		queueNews(batch, st, jobs)
	}
	// Keys first: the title of a delivery that is on record by then is seen by the later statement.
	queueKeys(batch, st, jobs)
	queueTitles(batch, st, jobs)
	queueBlocked(batch, st, jobs)
	if err := q.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("load batch: %w", err)
	}
	return r.prepareCreations(ctx, q, st, jobs)
}

func queueTitles(batch *pgx.Batch, st *state, jobs []*job) {
	wanted := make(map[string]bool, len(jobs)) // folded title → with details
	for _, j := range jobs {
		if st.titles[j.folded] == nil {
			wanted[j.folded] = wanted[j.folded] || j.novel != nil
		}
	}
	if len(wanted) == 0 {
		return
	}
	folded, details := make([]string, 0, len(wanted)), make([]bool, 0, len(wanted))
	for f, withDetails := range wanted {
		st.titles[f] = &title{}
		folded, details = append(folded, f), append(details, withDetails)
	}
	batch.Queue(readTitlesSQL, folded, details).Query(func(rows pgx.Rows) error {
		// Outside of the loop, since each would be allocated again for every row.
		var (
			key string
			n   novel.Novel
			// Not uuid.UUID: pgx would scan that through text.
			id, owner, threadID pgtype.UUID
			encoded             []byte
			into                = []any{&key, &id, &n.Slug, &n.Title, &n.State, &owner, &n.Version, &encoded, &threadID}
		)
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				return fmt.Errorf("scan title: %w", err)
			}
			n.ID = id.Bytes
			t := &title{novel: n, thread: thread.Thread{ID: threadID.Bytes}}
			if owner.Valid {
				t.novel.OwnerID = new(uuid.UUID(owner.Bytes))
			}
			if encoded != nil {
				if err := json.Unmarshal(encoded, &t.novel.Details); err != nil {
					return fmt.Errorf("decode details of novel %s: %w", n.ID, err)
				}
			}
			st.titles[key] = t
			st.remember(key, t)
		}
		return rows.Err()
	})
}

func queueKeys(batch *pgx.Batch, st *state, jobs []*job) {
	seen := make(map[ref]struct{}, 2*len(jobs))
	ids, sources := make([]string, 0, 2*len(jobs)), make([]string, 0, 2*len(jobs))
	add := func(r ref) {
		if _, ok := seen[r]; !ok {
			seen[r] = struct{}{}
			ids, sources = append(ids, r.id), append(sources, r.source)
		}
	}
	for _, j := range jobs {
		if !st.presumes(j) {
			add(j.ref)
		}
		if parent, ok := j.parentRef(); ok && st.parents[parent] == (post.Parent{}) {
			add(parent)
		}
	}
	if len(ids) == 0 {
		return
	}
	batch.Queue(readKeysSQL, ids, sources).Query(func(rows pgx.Rows) error {
		var r ref
		var streamID, salt pgtype.UUID
		for rows.Next() {
			u := &used{}
			if err := rows.Scan(&r.id, &r.source, &streamID, &u.stored.Type, &u.stored.Data, &salt, &u.metadata); err != nil {
				return fmt.Errorf("scan delivery: %w", err)
			}
			u.streamID, u.salt = streamID.Bytes, uuid.NullUUID{UUID: salt.Bytes, Valid: salt.Valid}
			st.used[r] = u
		}
		return rows.Err()
	})
}

func queueBlocked(batch *pgx.Batch, st *state, jobs []*job) {
	authors := authorsOf(jobs)
	if len(authors) == 0 {
		return
	}
	batch.Queue(readBlockedSQL, authors).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var id uuid.UUID
			if err := rows.Scan(&id); err != nil {
				return fmt.Errorf("scan blocked author: %w", err)
			}
			if st.blocked == nil {
				st.blocked = map[uuid.UUID]bool{}
			}
			st.blocked[id] = true
			if st.memory != nil {
				st.memory.blocked.put(id, struct{}{})
			}
		}
		return rows.Err()
	})
}

// authorsOf returns who wrote the comments.
func authorsOf(jobs []*job) []uuid.UUID {
	authors := make([]uuid.UUID, 0, len(jobs))
	for _, j := range jobs {
		if j.isComment() {
			authors = append(authors, j.author)
		}
	}
	return authors
}

// prepareCreations reserves permits for those novels that the batch may create or update, and reads which slugs are
// taken.
func (r *run) prepareCreations(ctx context.Context, q database.DB, st *state, jobs []*job) error {
	needed, limits := map[window]int{}, map[window]int{}
	need := func(caller *Caller, operation ratelimit.Operation) {
		if w, limit, ok := caller.limited(operation); ok {
			needed[w]++
			limits[w] = limit
		}
	}
	var candidates []string
	counted := map[string]struct{}{}
	for _, j := range jobs {
		n := &st.titles[j.folded].novel
		if j.novel != nil && n.Exists() && st.used[j.ref] == nil {
			if outcome, err := n.Standing(j.caller.IntegrationID); err == nil && outcome == novel.Updated {
				need(j.caller, ratelimit.NovelUpdates)
			}
		}
		if n.Exists() || !j.mayCreate() || st.used[j.ref] != nil || st.blocked[j.author] {
			continue
		}
		if st.presumes(j) {
			return errPresumption
		}
		if _, ok := counted[j.folded]; ok {
			continue
		}
		counted[j.folded] = struct{}{}
		need(j.caller, ratelimit.Novels)
		if n.Slug == "" { // a title that is free again has kept its slug
			candidates = append(candidates, novel.SlugCandidates(titles.Slug(j.title), events.NovelID(j.folded))...)
		}
	}
	for w, n := range needed {
		r.permits.reserve(ctx, w, limits[w], n)
	}
	if len(candidates) == 0 {
		return nil
	}
	rows, err := q.Query(ctx, readSlugsSQL, candidates)
	if err != nil {
		return fmt.Errorf("read slugs: %w", err)
	}
	taken, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("read slugs: %w", err)
	}
	st.slugs = make(map[string]struct{}, len(taken)+len(candidates))
	for _, slug := range taken {
		st.slugs[slug] = struct{}{}
	}
	return nil
}
