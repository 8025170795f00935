package imports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/ratelimit"
	"novelgate/internal/database"
	"novelgate/internal/problem"
)

// State of an import.
type State string

// States. The last three are final.
const (
	Open       State = "open"       // accepts lines
	Processing State = "processing" // complete, and lines have no outcome yet
	Completed  State = "completed"
	Cancelled  State = "cancelled"
	Abandoned  State = "failed" // no change for the retention time
)

// Import is an import as its partner sees it.
type Import struct {
	ID            uuid.UUID `json:"importId"`
	State         State     `json:"state"`
	Lines         int64     `json:"lines"` // and so the offset of the next part
	Created       int64     `json:"created"`
	Updated       int64     `json:"updated"`
	Unchanged     int64     `json:"unchanged"`
	Replayed      int64     `json:"replayed"`
	Failed        int64     `json:"failed"`
	Waiting       int64     `json:"waiting"`
	Pending       int64     `json:"pending"`
	ParentMissing int64     `json:"parentMissing"`
	// LinesPerSecond is the recent rate. SecondsLeft is estimated from it and from the limit of the integration (see
	// estimate); nil while no line is executed and the import does not wait for permits.
	LinesPerSecond float64    `json:"linesPerSecond"`
	SecondsLeft    *int64     `json:"secondsLeft"`
	OpenedAt       time.Time  `json:"openedAt"`
	EndedAt        *time.Time `json:"endedAt"`
	// PurgedAt is the time when its lines and results were deleted.
	PurgedAt *time.Time `json:"purgedAt"`

	paused bool // until the next permits, or after a failure of the limiter
}

// estimate sets SecondsLeft: the time for the remaining lines at the current rate or, if longer, until there are
// permits for all of them.
func (i *Import) estimate(limit ratelimit.Decision) {
	remaining := i.Pending + i.Waiting
	if i.EndedAt != nil || remaining == 0 {
		i.LinesPerSecond = 0
		return
	}
	var seconds float64
	if i.LinesPerSecond > 0 {
		seconds = float64(remaining) / i.LinesPerSecond
	}
	if lacking := remaining - int64(limit.Remaining); lacking > 0 && limit.Limit > 0 && (i.paused || seconds > 0) {
		seconds = max(seconds, float64(lacking)*ratelimit.Window.Seconds()/float64(limit.Limit))
	}
	if seconds > 0 {
		i.SecondsLeft = new(int64(seconds) + 1)
	}
}

// Store is the imports and their spool in the database.
type Store struct {
	Pool *pgxpool.Pool
	// MaxSpool limits the bytes of an integration in the spool: its lines that wait or have failed, as they are stored,
	// and waitingBytes for each line without an outcome. At this limit the next part is refused. Default: 4 GiB.
	MaxSpool int64
	// Retention is how long the lines and results of an ended import are kept. An import without any change for this
	// time ends as failed.
	Retention time.Duration
}

const defaultMaxSpool = 4 << 30

// The rate is 0 when it was last measured more than ten seconds ago, for example before a pause.
const importColumns = `import_id, state, lines, created, updated, unchanged, replayed, failed, waiting, parent_missing,
CASE WHEN measured_at > now() - interval '10 seconds' THEN rate ELSE 0 END, opened_at, ended_at, purged_at, resume_at > now()`

func scanImport(row pgx.CollectableRow) (i Import, err error) {
	err = row.Scan(&i.ID, &i.State, &i.Lines, &i.Created, &i.Updated, &i.Unchanged, &i.Replayed, &i.Failed, &i.Waiting,
		&i.ParentMissing, &i.LinesPerSecond, &i.OpenedAt, &i.EndedAt, &i.PurgedAt, &i.paused)
	i.Pending = i.Lines - i.Created - i.Updated - i.Unchanged - i.Replayed - i.Failed - i.Waiting
	database.UTC(&i.OpenedAt, i.EndedAt, i.PurgedAt)
	return i, err
}

// queryImport executes a statement that returns one import. If the statement returns none, it fails with pgx.ErrNoRows.
func queryImport(ctx context.Context, db database.Querier, what, sql string, args ...any) (Import, error) {
	rows, _ := db.Query(ctx, sql, args...) // CollectExactlyOneRow has the error
	i, err := pgx.CollectExactlyOneRow(rows, scanImport)
	if err != nil {
		return Import{}, fmt.Errorf("%s: %w", what, err)
	}
	return i, nil
}

// maxUnfinished limits the unfinished imports of an integration.
const maxUnfinished = 20

var errTooMany = problem.Conflict(fmt.Sprintf(
	"%d imports of this integration are not finished. Complete or cancel one of them.", maxUnfinished))

const (
	// lockOpenSQL makes the requests that open imports of an integration run one after another, so that each counts the
	// imports of the others. $1: integration.
	lockOpenSQL = `SELECT pg_advisory_xact_lock(hashtextextended('novelgate imports ' || $1::text, 0))`

	openSQL = `INSERT INTO imports (import_id, integration_id, idempotency_key, key_id, state)
SELECT $1, $2, $3, $4, 'open'
WHERE (SELECT count(*) FROM imports WHERE integration_id = $2 AND ended_at IS NULL) < $5
ON CONFLICT (integration_id, idempotency_key) DO NOTHING
RETURNING ` + importColumns
	openedSQL = `SELECT ` + importColumns + ` FROM imports WHERE integration_id = $1 AND idempotency_key = $2`
)

// open creates an import, or returns the one that the key opened before.
func (s *Store) open(ctx context.Context, integration, keyID uuid.UUID, key string) (
	i Import, replayed bool, err error,
) {
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockOpenSQL, integration); err != nil {
			return fmt.Errorf("open import: %w", err)
		}
		i, err = queryImport(ctx, tx, "open import", openSQL, uuid.Must(uuid.NewV7()), integration, key, keyID, maxUnfinished)
		return err
	})
	if !errors.Is(err, pgx.ErrNoRows) {
		return i, false, err
	}
	i, err = queryImport(ctx, s.Pool, "find import", openedSQL, integration, key)
	if errors.Is(err, pgx.ErrNoRows) {
		return i, false, errTooMany
	}
	return i, err == nil, err
}

// errNoImport refuses an identifier that is unknown, or of another integration.
var errNoImport = problem.NotFound().WithDetail("This integration has no such import.")

// find returns an import of an integration.
func (s *Store) find(ctx context.Context, integration, id uuid.UUID) (Import, error) {
	i, err := queryImport(ctx, s.Pool, "find import",
		`SELECT `+importColumns+` FROM imports WHERE import_id = $1 AND integration_id = $2`, id, integration)
	if errors.Is(err, pgx.ErrNoRows) {
		return i, errNoImport
	}
	return i, err
}

const listSQL = `SELECT ` + importColumns + ` FROM imports
WHERE integration_id = $1 AND (opened_at, import_id) < ($2, $3) AND ($4 = '' OR state = $4)
ORDER BY opened_at DESC, import_id DESC LIMIT $5`

// list returns imports of an integration before a place, newest first.
func (s *Store) list(
	ctx context.Context, integration uuid.UUID, before time.Time, beforeID uuid.UUID, state string, limit int,
) ([]Import, error) {
	return database.Collect(ctx, s.Pool, "imports", scanImport, listSQL, integration, before, beforeID, state, limit)
}

const (
	completeSQL = `UPDATE imports SET state = CASE WHEN lines = 0 THEN 'completed' ELSE 'processing' END, changed_at = now(),
    ended_at = CASE WHEN lines = 0 THEN now() END
WHERE import_id = $1 AND state = 'open' AND lines = coalesce($2, lines) RETURNING ` + importColumns
	cancelSQL = `UPDATE imports SET state = 'cancelled', changed_at = now(), ended_at = now()
WHERE import_id = $1 AND state IN ('open', 'processing') RETURNING ` + importColumns
)

// complete ends the upload, if the import has the number of lines that its partner has sent; nil means any number. It
// is idempotent.
func (s *Store) complete(ctx context.Context, integration, id uuid.UUID, lines *int64) (Import, error) {
	i, err := s.changeState(ctx, integration, id, completeSQL, []any{lines}, Processing, Completed)
	switch {
	case err != nil && i.State == Open:
		return i, problem.OffsetMismatch(i.Lines)
	case err == nil && lines != nil && *lines != i.Lines: // it was complete before
		return i, problem.ImportClosed(string(i.State)).WithDetail(
			fmt.Sprintf("The import is %s, with %d lines.", i.State, i.Lines))
	}
	return i, err
}

// cancel ends the execution of lines. It is idempotent.
func (s *Store) cancel(ctx context.Context, integration, id uuid.UUID) (Import, error) {
	return s.changeState(ctx, integration, id, cancelSQL, nil, Cancelled)
}

// changeState executes a statement that changes the state of an import; args are its parameters after the import. If
// the import is in one of the reached states already, this is a success.
func (s *Store) changeState(
	ctx context.Context, integration, id uuid.UUID, sql string, args []any, reached ...State,
) (Import, error) {
	if i, err := s.find(ctx, integration, id); err != nil {
		return i, err
	}
	i, err := queryImport(ctx, s.Pool, "change import", sql, append([]any{id}, args...)...)
	if !errors.Is(err, pgx.ErrNoRows) {
		return i, err
	}
	if i, err = s.find(ctx, integration, id); err != nil {
		return i, err
	}
	if slices.Contains(reached, i.State) {
		return i, nil
	}
	return i, problem.ImportClosed(string(i.State))
}

// appendSQL stores a chunk in one short transaction. $1: import; $2: number of lines before it; $3: number of lines;
// $4: whether it is ordered; $5: body; $6, $7, $8: offset, number of lines and SHA-256 of a part that ends with the
// chunk, or NULL.
const appendSQL = `WITH i AS (
    UPDATE imports SET lines = lines + $3, spooled = spooled + octet_length($5::bytea), changed_at = now()
    WHERE import_id = $1 AND lines = $2 AND state = 'open'
    RETURNING import_id
), c AS (
    INSERT INTO import_chunks (import_id, first_line, lines, turn, unsettled, ordered, body)
    SELECT import_id, $2, $3, $2, $3, $4, $5 FROM i
), p AS (
    INSERT INTO import_parts (import_id, first_line, lines, sha256)
    SELECT import_id, $6, $7, $8 FROM i WHERE $8::bytea IS NOT NULL
)
SELECT count(*) FROM i`

// append stores a chunk of a part, and with the last chunk also records the part. It returns false when the import has
// another number of lines or is no longer open.
func (s *Store) append(ctx context.Context, id uuid.UUID, c *chunk, part *part) (bool, error) {
	var sum []byte
	if c.last {
		sum = part.sum()
	}
	var stored int
	err := s.Pool.QueryRow(ctx, appendSQL, id, c.first, len(c.lines), c.ordered, packLines(c.lines), part.before,
		part.count, sum).Scan(&stored)
	if err != nil {
		return false, fmt.Errorf("store lines: %w", err)
	}
	return stored == 1, nil
}

// spoolPause is how long a partner is asked to wait for space in the spool.
const spoolPause = 10 * time.Second

// waitingBytes is the size of a reply that waits for its parent, in import_waiting and its indexes. Any line without an
// outcome may become such a reply.
const waitingBytes = 250

// spoolSizeSQL returns the size of the lines in the spool, and whether some of them will leave it soon: lines without
// an outcome, and those of an import that was cancelled a moment ago, until the next purge. $1: integration; $2:
// waitingBytes; $3: purgeEvery.
const spoolSizeSQL = `SELECT coalesce(sum(greatest(spooled, 0) + CASE WHEN ended_at IS NULL THEN n.left ELSE 0 END * $2), 0),
    coalesce(bool_or(n.left > 0 AND (ended_at IS NULL OR spooled > 0 AND ended_at > now() - 2 * $3::interval)), false)
FROM imports, LATERAL (SELECT lines - created - updated - unchanged - replayed - failed AS left) AS n
WHERE integration_id = $1 AND purged_at IS NULL`

// checkSpace fails if the lines of an integration take MaxSpool. The error is retryable while some lines wait, because
// these leave the spool when their comments and novels are stored.
func (s *Store) checkSpace(ctx context.Context, integration uuid.UUID) error {
	var size int64
	var wait bool
	if err := s.Pool.QueryRow(ctx, spoolSizeSQL, integration, waitingBytes, purgeEvery).Scan(&size, &wait); err != nil {
		return fmt.Errorf("measure the spool: %w", err)
	}
	limit := cmp.Or(s.MaxSpool, defaultMaxSpool)
	switch {
	case size < limit:
		return nil
	case wait:
		return problem.QueriesLimited(spoolPause).WithDetail(fmt.Sprintf("The lines of your imports that wait or have "+
			"failed take %d bytes; the limit is %d. Send this part again when more lines are stored.", size, limit))
	}
	return problem.Conflict(fmt.Sprintf("The lines of your imports that have failed, or were left when an import was "+
		"cancelled, take %d bytes; the limit is %d. They are deleted some days after the end of their import.", size, limit))
}

const partSQL = `SELECT lines, sha256 FROM import_parts WHERE import_id = $1 AND first_line = $2`

// findPart returns the number of lines and the SHA-256 of the part at an offset, if it was stored completely; otherwise
// 0.
func (s *Store) findPart(ctx context.Context, id uuid.UUID, offset int64) (lines int64, sum []byte, err error) {
	err = s.Pool.QueryRow(ctx, partSQL, id, offset).Scan(&lines, &sum)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, nil, fmt.Errorf("find part: %w", err)
	}
	return lines, sum, nil
}

// listedChunk is a chunk for a listing.
type listedChunk struct {
	before         int64  // lines of the import before the chunk
	count          int64  // lines of the chunk
	lines, results []byte // packed
}

// chunkFilter selects chunks for a listing.
type chunkFilter struct {
	after      int64 // with a line number above this
	minBefore  int64 // with at least as many lines before the chunk
	onlyFailed bool  // with a failed line
	withLines  bool  // returned with its lines
}

// $1: import; $2 to $5: the chunkFilter. first_line is the number of lines before the chunk.
const listedSQL = `SELECT first_line, lines, CASE WHEN $5 THEN body ELSE '' END, results FROM import_chunks
WHERE import_id = $1 AND first_line + lines > $2 AND first_line >= $3 AND (NOT $4 OR failed > 0)
ORDER BY first_line LIMIT 1`

// nextListed returns the first selected chunk of an import; nil if there is none.
func (s *Store) nextListed(ctx context.Context, id uuid.UUID, f chunkFilter) (*listedChunk, error) {
	var c listedChunk
	err := s.Pool.QueryRow(ctx, listedSQL, id, f.after, f.minBefore, f.onlyFailed, f.withLines).
		Scan(&c.before, &c.count, &c.lines, &c.results)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read results: %w", err)
	default:
		return &c, nil
	}
}
