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
	"novelgate/commands/ratelimit"
	"novelgate/events"
	"novelgate/events/eventlog"
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

// state is the state of one attempt: what was read, and what its own commands have changed.
type state struct {
	id     uuid.UUID         // of the append, in the metadata of every event
	held   *bool             // the attempt has the lock of the log
	sent   bool              // the append was sent
	grants *ratelimit.Grants // permits of the attempt
	// isFast: the jobs are decided on the cache, and permits are granted without a read before.
	isFast  bool
	end     eventlog.Mark // of the log before the append
	retried bool          // a comment of the batch is a retry

	// by folded title; an unknown title has a zero novel; a free one has an identifier and a slug
	titles     map[string]*title
	deliveries map[deliveryKey]*delivery   // recorded deliveries of commands and of parents
	first      map[deliveryKey]*job        // first accepted command of this batch with each key
	blocked    map[uuid.UUID]bool          // blocked authors of comments of this batch
	parents    map[deliveryKey]post.Parent // posts of this batch, and known parents
	slugs      map[string]struct{}         // taken slugs among the candidates
	comments   map[uuid.UUID]*changed      // comments of changes; without events for one that is not on record
	withdrawn  []uuid.UUID                 // comments that the attempt withdraws
	decided    []events.Recorded           // events, in the order of the decisions
	senders    []uuid.UUID                 // integration of each decided event
	bytes      []int                       // size of each decided event
}

func newState(jobs int) *state {
	return &state{
		held:   new(bool),
		titles: make(map[string]*title, jobs), deliveries: map[deliveryKey]*delivery{},
		first: make(map[deliveryKey]*job, jobs), blocked: map[uuid.UUID]bool{},
		parents: make(map[deliveryKey]post.Parent, jobs), comments: map[uuid.UUID]*changed{},
		decided: make([]events.Recorded, 0, jobs+8),
	}
}

// title is a novel and its thread.
type title struct {
	novel    novel.Novel
	threadID uuid.UUID // uuid.Nil: not open yet
}

// delivery is a recorded command.
type delivery struct {
	streamID    uuid.UUID
	stored      events.Stored
	salt        uuid.NullUUID
	fingerprint events.Fingerprint
	batch       uuid.UUID
	original    Original
	novelSlug   string // of a comment
}

func (d *delivery) post() (events.PostImported, error) {
	return events.DecodeAs[events.PostImported](d.stored)
}

// parent returns the post that was delivered under a key; the zero Parent when there is none.
func (st *state) parent(key deliveryKey) (post.Parent, error) {
	if parent, ok := st.parents[key]; ok {
		return parent, nil
	}
	d, ok := st.deliveries[key]
	if !ok {
		return post.Parent{}, nil
	}
	imported, err := d.post()
	if err != nil {
		return post.Parent{}, err
	}
	st.parents[key] = post.Parent{PostID: d.streamID, ThreadID: imported.ThreadID}
	return st.parents[key], nil
}

// read begins the transaction, locks the log, and loads the data for the decisions on jobs, in one round trip, with one
// more when novels will be created. Each statement sees what was committed before the lock.
func (b *batch) read(ctx context.Context, db database.DB, st *state, jobs []*job) error {
	defer b.config.Breaker.Watch(ctx)() // only while it waits, or it would end its own session when this process is slow
	statements := &pgx.Batch{}
	statements.Queue("begin")
	st.held = eventlog.Lock(statements)
	if b.metLock {
		statements.Queue(shortTimeoutSQL)
	}
	b.wantPermits(st, jobs)
	st.grants.QueueRead(statements)
	b.cache.check(statements, st, nil)
	if authors := authorsOf(jobs); len(authors) > 0 {
		queueBlocked(statements, st, authors)
	}
	queueKeys(statements, st, jobs)
	queueTitles(statements, st, jobs)
	queueComments(statements, st, jobs)
	if err := db.SendBatch(ctx, statements).Close(); err != nil {
		return fmt.Errorf("read batch: %w", err)
	}
	return st.readSlugs(ctx, db, jobs)
}

func queueTitles(statements *pgx.Batch, st *state, jobs []*job) {
	wanted := make(map[string]bool, len(jobs)) // folded title → with details
	for _, j := range jobs {
		if !j.isChange() {
			wanted[j.FoldedTitle] = wanted[j.FoldedTitle] || !j.isComment()
		}
	}
	folded, details := make([]string, 0, len(wanted)), make([]bool, 0, len(wanted))
	for f, withDetails := range wanted {
		st.titles[f] = &title{}
		folded, details = append(folded, f), append(details, withDetails)
	}
	statements.Queue(readTitlesSQL, folded, details).Query(func(rows pgx.Rows) error {
		// Outside of the loop: one allocation instead of one per row.
		var (
			key string
			n   novel.Novel
			// Not uuid.UUID, which pgx would scan as text.
			id, owner, threadID pgtype.UUID
			encoded             []byte
			into                = []any{&key, &id, &n.Slug, &n.Title, &n.State, &owner, &n.Version, &encoded, &threadID}
		)
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				return fmt.Errorf("scan title: %w", err)
			}
			n.ID = id.Bytes
			t := &title{novel: n, threadID: threadID.Bytes}
			if owner.Valid {
				t.novel.OwnerID = new(uuid.UUID(owner.Bytes))
			}
			if encoded != nil {
				if err := json.Unmarshal(encoded, &t.novel.Details); err != nil {
					return fmt.Errorf("decode details of novel %s: %w", n.ID, err)
				}
			}
			st.titles[key] = t
		}
		return rows.Err()
	})
}

func queueKeys(statements *pgx.Batch, st *state, jobs []*job) {
	seen := make(map[deliveryKey]struct{}, 2*len(jobs))
	var postIDs, integrations []uuid.UUID
	var keys, paths []string
	add := func(j *job, key deliveryKey) {
		if _, ok := seen[key]; ok {
			return
		}
		seen[key] = struct{}{}
		if j.isComment() {
			postIDs = append(postIDs, events.PostID(j.Caller.IntegrationID, key.id))
			return
		}
		_, path := events.SplitSource(key.source)
		keys, paths = append(keys, key.id), append(paths, path)
		integrations = append(integrations, j.Caller.IntegrationID)
	}
	for _, j := range jobs {
		add(j, j.key)
		if parent, ok := j.parentKey(); ok {
			add(j, parent)
		}
	}
	statements.Queue(readKeysSQL, postIDs, keys, integrations, paths).Query(func(rows pgx.Rows) error {
		var key, path string
		var integration, streamID, salt, fingerprint, batch pgtype.UUID
		var requestID, slug pgtype.Text
		for rows.Next() {
			d := &delivery{}
			if err := rows.Scan(&key, &integration, &path, &streamID, &d.stored.Type, &d.stored.Data, &salt, &fingerprint,
				&batch, &requestID, &slug); err != nil {
				return fmt.Errorf("scan delivery: %w", err)
			}
			d.streamID, d.salt = streamID.Bytes, uuid.NullUUID{UUID: salt.Bytes, Valid: salt.Valid}
			d.fingerprint, d.batch, d.novelSlug = fingerprint.Bytes, batch.Bytes, slug.String
			d.original = Original{RequestID: requestID.String, EventType: d.stored.Type}
			st.deliveries[deliveryKey{key, events.JoinSource(integration.Bytes, path)}] = d
		}
		return rows.Err()
	})
}

func queueBlocked(statements *pgx.Batch, st *state, authors []uuid.UUID) {
	statements.Queue(readBlockedSQL, authors).Query(func(rows pgx.Rows) error {
		blocked, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		for _, id := range blocked {
			st.blocked[id] = true
		}
		return err
	})
}

// authorsOf returns the authors of the comments.
func authorsOf(jobs []*job) []uuid.UUID {
	authors := make([]uuid.UUID, 0, len(jobs))
	for _, j := range jobs {
		if j.isComment() {
			authors = append(authors, j.author)
		}
	}
	return authors
}

// readSlugs reads which of the slugs are taken that the novels may get which the batch may create.
func (st *state) readSlugs(ctx context.Context, db database.DB, jobs []*job) error {
	var candidates []string
	created := map[string]bool{}
	for _, j := range jobs {
		if j.isChange() {
			continue
		}
		n := &st.titles[j.FoldedTitle].novel
		if n.Exists() || n.Slug != "" || // a free title has kept its slug
			created[j.FoldedTitle] || !j.mayCreate() || st.deliveries[j.key] != nil {
			continue
		}
		created[j.FoldedTitle] = true
		candidates = append(candidates, novel.SlugCandidates(titles.Slug(j.Title), events.NovelID(j.FoldedTitle))...)
	}
	if len(candidates) == 0 {
		return nil
	}
	taken, err := database.Collect(ctx, db, "slugs", pgx.RowTo[string], readSlugsSQL, candidates)
	if err != nil {
		return err
	}
	st.slugs = make(map[string]struct{}, len(taken)+len(candidates))
	for _, slug := range taken {
		st.slugs[slug] = struct{}{}
	}
	return nil
}
