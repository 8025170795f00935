package imports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/ratelimit"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/problem"
)

const (
	// spooledSQL lists the chunks that still have texts of lines: lines without an outcome, and failed ones.
	spooledSQL = `SELECT c.import_id, c.first_line, c.body FROM imports AS i JOIN import_chunks AS c USING (import_id)
WHERE i.integration_id = $1 AND i.purged_at IS NULL AND (c.unsettled > 0 OR c.failed > 0)
  AND (c.import_id, c.first_line) > ($2, $3)
ORDER BY c.import_id, c.first_line LIMIT 20`
	leaseSQL = `UPDATE import_chunks SET holder = $3, leased_until = now() + $4::interval
WHERE import_id = $1 AND first_line = $2 AND (holder IS NULL OR holder = $3 OR leased_until < now())
RETURNING body, results`
	chunkExistsSQL = `SELECT EXISTS (SELECT FROM import_chunks WHERE import_id = $1 AND first_line = $2)`
	eraseSQL       = `WITH old AS (
    SELECT octet_length(body) AS size FROM import_chunks WHERE import_id = $1 AND first_line = $2
), c AS (
    UPDATE import_chunks SET body = $4, results = $5, holder = NULL
    WHERE import_id = $1 AND first_line = $2 AND holder = $3
    RETURNING import_id
)
UPDATE imports AS i SET spooled = i.spooled + octet_length($4::bytea) - old.size FROM c, old WHERE i.import_id = c.import_id`
)

// leasePause is the time between attempts to lease a chunk.
const leasePause = 50 * time.Millisecond

// EraseLines erases the lines of an author from the spool and returns their number. It leases each chunk with such
// lines, and a worker executes no line of a chunk that it does not lease (see submitTime). So when it returns, each of
// the author's lines that were spooled before the call is erased or was executed, and then its comment is on record.
// EraseLines calls found once, before it erases the first line, and erases none if found fails.
func EraseLines(
	ctx context.Context, pool *pgxpool.Pool, integration uuid.UUID, externalUUID string, found func() error,
) (int, error) {
	erased, holder := 0, uuid.New()
	found = sync.OnceValue(found)
	var id uuid.UUID
	first := int64(-1)
	type spooled struct {
		ID    uuid.UUID
		First int64
		Body  []byte
	}
	for {
		chunks, err := database.Collect(ctx, pool, "spooled lines", pgx.RowToStructByPos[spooled], spooledSQL, integration,
			id, first)
		if err != nil || len(chunks) == 0 {
			return erased, err
		}
		for _, c := range chunks {
			id, first = c.ID, c.First
			lines, err := unpackLines(c.Body)
			if err != nil {
				return erased, err
			}
			if !slices.ContainsFunc(lines, func(line []byte) bool { return isBy(line, externalUUID) }) {
				continue
			}
			if err := found(); err != nil {
				return erased, err
			}
			n, err := eraseFrom(ctx, pool, holder, c.ID, c.First, externalUUID)
			if err != nil {
				return erased, err
			}
			erased += n
		}
	}
}

// eraseFrom erases the lines of an author from a chunk.
func eraseFrom(
	ctx context.Context, pool *pgxpool.Pool, holder, id uuid.UUID, first int64, author string,
) (erased int, err error) {
	lines, results, err := leaseChunk(ctx, pool, holder, id, first)
	if errors.Is(err, errDeleted) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	erasedLines := map[int64]bool{} // by number
	for index, line := range lines {
		if isBy(line, author) {
			lines[index], erasedLines[first+int64(index)+1] = []byte(erasedLine), true
		}
	}
	for i, encoded := range results {
		r, err := decodeResult(encoded)
		if err != nil {
			return 0, err
		}
		if !erasedLines[r.Line] {
			continue
		}
		// The problem may quote the line.
		r.Problem = errErased.JSON(requestID(id, r.Line))
		if results[i], err = r.encode(); err != nil {
			return 0, err
		}
	}
	tag, err := pool.Exec(ctx, eraseSQL, id, first, holder, packLines(lines), packLines(results))
	if err == nil && tag.RowsAffected() == 0 {
		err = errLeaseLost
	}
	if err != nil {
		return 0, fmt.Errorf("erase lines: %w", err)
	}
	return len(erasedLines), nil
}

// errDeleted means that a chunk no longer exists.
var errDeleted = errors.New("the lines were deleted")

// leaseChunk waits until no worker has a chunk, leases it, and returns its lines and results. It fails with errDeleted
// if the chunk is gone.
func leaseChunk(
	ctx context.Context, pool *pgxpool.Pool, holder, id uuid.UUID, first int64,
) (lines, results [][]byte, err error) {
	for {
		var body, packed []byte
		err := pool.QueryRow(ctx, leaseSQL, id, first, holder, lease).Scan(&body, &packed)
		switch {
		case err == nil:
			if lines, err = unpackLines(body); err == nil {
				results, err = unpackLines(packed)
			}
			return lines, results, err
		case !errors.Is(err, pgx.ErrNoRows):
			return nil, nil, fmt.Errorf("lease a chunk: %w", err)
		}
		var exists bool
		err = pool.QueryRow(ctx, chunkExistsSQL, id, first).Scan(&exists)
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("look for a chunk: %w", err)
		case !exists:
			return nil, nil, errDeleted
		case !eventlog.Sleep(ctx, leasePause):
			return nil, nil, fmt.Errorf("wait for the lease of a chunk: %w", ctx.Err())
		}
	}
}

// errErased is the outcome of a line whose author was erased.
var errErased = problem.Gone().WithDetail("The staff of the host platform erased the author of this comment.")

// isBy reports whether a line is a comment by an author. A line whose author cannot be read counts if it contains the
// author's identifier anywhere.
func isBy(line []byte, author string) bool {
	if string(line) == erasedLine {
		return false
	}
	var body struct {
		UUID string `json:"uuid"`
	}
	e, err := readEnvelope(line)
	if err == nil && e.operation.value == string(ratelimit.Novels) {
		return false
	}
	if err == nil && e.body != nil {
		err = json.Unmarshal(e.body, &body, jsontext.AllowInvalidUTF8(true))
	}
	if err != nil || body.UUID == "" {
		return bytes.Contains(line, []byte(author))
	}
	return body.UUID == author
}
