package imports

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

// lease is how long a worker holds a chunk after each save. Then another worker or an erasure may lease it.
const lease = 10 * time.Second

// submitTime is how long after a save a worker submits lines. The other half of the lease is time to execute them, so
// no line is executed after another worker or an erasure has leased the chunk.
const submitTime = lease / 2

var (
	//go:embed claim.sql
	claimSQL string
	//go:embed save.sql
	saveSQL string
	//go:embed waiting.sql
	waitingSQL string
)

// errLeaseLost ends a visit: another worker or an erasure has leased the chunk, or a failover has lost the lease. After
// a failover, the new primary may lack lines that this visit has stored, so their outcomes must not be saved.
var errLeaseLost = errors.New("the lease of the chunk has expired")

// visit is a chunk that a worker has leased.
type visit struct {
	importID, integrationID, keyID   uuid.UUID
	server                           database.Server // from which the chunk was leased
	linesBefore                      int64           // of the import, before the chunk
	turn                             int64           // of the chunk; see turnsPerRound
	round                            int64           // of the import
	finalRound                       bool
	receivedAt                       time.Time
	canPost, canCreateNovels, review bool
	perMinute                        int // limit of lines of the integration

	lines   [][]byte               // a line with an outcome is empty, unless it failed
	results map[int][]byte         // encoded outcomes, by index in lines
	waiting map[int]*waiter        // lines that wait, by index in lines
	stored  map[uuid.UUID]struct{} // comments known to be on record
	failed  map[int]struct{}       // indexes of failed results

	// since the last save
	outcomes      map[Status]int64 // lines by outcome
	parentMissing int64            // of these, replies that were stored top-level
	resolved      []int64          // lines in import_waiting that no longer wait
	leasedAt      time.Time
}

// waiter is a waiting reply.
type waiter struct {
	post, parent uuid.UUID
	ready        bool // it can be executed now
	saved        bool // it is in import_waiting
}

// number returns the number of a line in the import, from 1.
func (v *visit) number(index int) int64 { return v.linesBefore + int64(index) + 1 }

// requestID returns the request id of the events of a line. An event with this id comes from an earlier attempt at
// this line, not from another request with its key.
func (v *visit) requestID(index int) string { return requestID(v.importID, v.number(index)) }

// requestPrefix begins the request ids of lines.
const requestPrefix = "import/"

func requestID(id uuid.UUID, line int64) string {
	return fmt.Sprintf("%s%s/%d", requestPrefix, id, line)
}

// claim leases a chunk for a worker; nil when there is none.
func (s *Store) claim(ctx context.Context, holder uuid.UUID, now time.Time) (*visit, error) {
	v := &visit{
		leasedAt: now, results: map[int][]byte{}, waiting: map[int]*waiter{}, failed: map[int]struct{}{},
		stored: map[uuid.UUID]struct{}{}, outcomes: map[Status]int64{},
	}
	conn, err := s.Pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("lease a chunk: %w", err)
	}
	defer conn.Release()
	v.server = database.ServerOf(conn.Conn().PgConn())
	err = conn.QueryRow(ctx, claimSQL, holder, lease).Scan(&v.importID, &v.linesBefore, &v.turn, &v.receivedAt,
		&v.integrationID, &v.keyID, &v.round, &v.finalRound, &v.canPost, &v.canCreateNovels, &v.review, &v.perMinute)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lease a chunk: %w", err)
	}
	if err := loadWaiting(ctx, conn, v); err != nil {
		return nil, err
	}
	if v.idle() {
		return v, nil
	}
	return v, load(ctx, conn, v)
}

// idle reports whether all lines without an outcome continue to wait.
func (v *visit) idle() bool {
	for _, w := range v.waiting {
		if w.ready {
			return false
		}
	}
	return v.turn >= turnsPerRound // in round 0 the chunk may have lines that were never executed
}

const loadSQL = `SELECT body, results FROM import_chunks WHERE import_id = $1 AND first_line = $2`

// load reads the lines and their saved outcomes.
func load(ctx context.Context, db database.Querier, v *visit) error {
	var body, packed []byte
	if err := db.QueryRow(ctx, loadSQL, v.importID, v.linesBefore).Scan(&body, &packed); err != nil {
		return fmt.Errorf("read a chunk: %w", err)
	}
	lines, err := unpackLines(body)
	if err != nil {
		return err
	}
	v.lines = lines
	saved, err := unpackLines(packed)
	if err != nil {
		return err
	}
	for _, encoded := range saved {
		r, err := decodeResult(encoded)
		if err != nil {
			return err
		}
		index := int(r.Line - v.linesBefore - 1)
		v.results[index] = encoded
		if r.Status == Failed {
			v.failed[index] = struct{}{}
		}
	}
	return nil
}

// loadWaiting reads the waiting lines of the chunk.
func loadWaiting(ctx context.Context, db database.Querier, v *visit) error {
	rows, _ := db.Query(ctx, waitingSQL, v.importID, v.linesBefore, v.finalRound) // ForEachRow has the error
	var line int64
	w := waiter{saved: true}
	var parent uuid.NullUUID
	_, err := pgx.ForEachRow(rows, []any{&line, &w.post, &parent, &w.ready}, func() error {
		w.parent = parent.UUID
		waiting := w
		v.waiting[int(line-v.linesBefore-1)] = &waiting
		return nil
	})
	if err != nil {
		return fmt.Errorf("read waiting lines: %w", err)
	}
	return nil
}

// due returns the lines to execute, in order. Replies whose parent has been stored in this visit are ready.
func (v *visit) due() []int {
	var due []int
	for index := range v.lines {
		if _, done := v.results[index]; done {
			continue
		}
		w := v.waiting[index]
		if w != nil && !w.ready {
			_, w.ready = v.stored[w.parent]
		}
		if w == nil || w.ready {
			due = append(due, index)
		}
	}
	return due
}

// record records the outcome of a line, and drops the line unless it failed.
func (v *visit) record(index int, r *Result) error {
	encoded, err := r.encode()
	if err != nil {
		return err
	}
	v.results[index] = encoded
	v.outcomes[r.Status]++
	if r.warns(ParentNotFound) {
		v.parentMissing++
	}
	if r.Status == Failed {
		v.failed[index] = struct{}{}
	} else {
		v.lines[index] = nil
	}
	if r.PostID != uuid.Nil {
		v.stored[r.PostID] = struct{}{}
	}
	if w := v.waiting[index]; w != nil {
		delete(v.waiting, index)
		if w.saved {
			v.resolved = append(v.resolved, v.number(index))
		}
	}
	return nil
}

const releaseSQL = `WITH c AS (
    UPDATE import_chunks SET turn = $4, holder = NULL WHERE import_id = $1 AND first_line = $2 AND holder = $3
    RETURNING import_id
)
UPDATE imports AS i SET worked_at = now() FROM c WHERE i.import_id = c.import_id`

// release ends the lease of an idle chunk. It also sets worked_at, so that an import with many idle chunks does not
// delay others.
func (s *Store) release(ctx context.Context, v *visit, holder uuid.UUID) error {
	if _, err := s.Pool.Exec(ctx, releaseSQL, v.importID, v.linesBefore, holder, v.nextTurn()); err != nil {
		return fmt.Errorf("release a chunk: %w", err)
	}
	return nil
}

// save stores the outcomes since the last save. It renews the lease or, at the end of the visit, ends it. It pauses the
// import for pause, if that is above zero. It returns the state of the import.
func (s *Store) save(
	ctx context.Context, v *visit, holder uuid.UUID, now time.Time, end bool, pause time.Duration,
) (state State, err error) {
	var next *int64 // turn of the next visit; nil keeps the lease
	if end {
		next = new(v.nextTurn())
		if len(v.due()) > 0 {
			next = &v.turn // lines are left: visit the chunk again in this round
		}
	}
	var resume *time.Duration
	if pause > 0 {
		resume = &pause
	}
	lines, posts, parents := v.newlyWaiting()
	conn, err := s.Pool.Acquire(ctx)
	if err != nil {
		return "", fmt.Errorf("save outcomes: %w", err)
	}
	defer conn.Release()
	if database.ServerOf(conn.Conn().PgConn()) != v.server {
		return "", errLeaseLost
	}
	n := v.outcomes
	err = conn.QueryRow(ctx, saveSQL, v.importID, v.linesBefore, holder, packLines(v.lines), v.packedResults(),
		len(v.lines)-len(v.results), len(v.failed), next, lease, n[Created], n[Updated], n[Unchanged], n[Replayed], n[Failed],
		v.parentMissing, v.resolved, lines, posts, parents, resume).Scan(&state)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", errLeaseLost
	}
	if err != nil {
		return "", fmt.Errorf("save outcomes: %w", err)
	}
	v.outcomes, v.parentMissing, v.resolved, v.leasedAt = map[Status]int64{}, 0, nil, now
	return state, nil
}

// newlyWaiting returns the waiting lines to add to import_waiting, with their posts and parents. It marks them as saved
// before the save, because a failed save ends the visit.
func (v *visit) newlyWaiting() (lines []int64, posts, parents []uuid.UUID) {
	for index, w := range v.waiting {
		if !w.saved {
			w.saved = true
			lines, posts, parents = append(lines, v.number(index)), append(posts, w.post), append(parents, w.parent)
		}
	}
	return lines, posts, parents
}

// packedResults returns the outcomes so far, in the order of the lines.
func (v *visit) packedResults() []byte {
	results := make([][]byte, 0, len(v.results))
	for _, index := range slices.Sorted(maps.Keys(v.results)) {
		results = append(results, v.results[index])
	}
	return packLines(results)
}
