package imports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/problem"
)

// purgeBatch is the number of chunks that one transaction deletes.
const purgeBatch = 100

const (
	abandonSQL = `UPDATE imports SET state = 'failed', ended_at = now()
WHERE state IN ('open', 'processing') AND changed_at < now() - $1::interval`
	endedSQL = `SELECT import_id FROM imports
WHERE ended_at < now() - $1::interval AND purged_at IS NULL ORDER BY ended_at LIMIT 100`
	purgeChunksSQL = `DELETE FROM import_chunks WHERE import_id = $1 AND first_line IN (
    SELECT first_line FROM import_chunks WHERE import_id = $1 ORDER BY first_line LIMIT $2)`
	purgeWaitingSQL = `DELETE FROM import_waiting WHERE import_id = $1 AND (first_line, line) IN (
    SELECT first_line, line FROM import_waiting WHERE import_id = $1 ORDER BY first_line, line LIMIT $2)`
	purgePartsSQL = `DELETE FROM import_parts WHERE import_id = $1`
	purgedSQL     = `UPDATE imports SET purged_at = now() WHERE import_id = $1`
)

// purge deletes the lines and results of imports that ended longer ago than retention, and ends imports without any
// change in that time.
func (s *Store) purge(ctx context.Context, retention time.Duration) error {
	if _, err := s.Pool.Exec(ctx, abandonSQL, retention); err != nil {
		return fmt.Errorf("end abandoned imports: %w", err)
	}
	ended, err := database.Collect(ctx, s.Pool, "old imports", pgx.RowTo[uuid.UUID], endedSQL, retention)
	if err != nil {
		return err
	}
	for _, id := range ended {
		for _, some := range []struct {
			sql   string
			batch int
		}{{purgeWaitingSQL, purgeBatch * chunkLines / 10}, {purgeChunksSQL, purgeBatch}} {
			for deleted := some.batch; deleted == some.batch; {
				tag, err := s.Pool.Exec(ctx, some.sql, id, some.batch)
				if err != nil {
					return fmt.Errorf("delete lines: %w", err)
				}
				deleted = int(tag.RowsAffected())
			}
		}
		for _, sql := range []string{purgePartsSQL, purgedSQL} {
			if _, err := s.Pool.Exec(ctx, sql, id); err != nil {
				return fmt.Errorf("delete parts: %w", err)
			}
		}
	}
	return nil
}

const (
	// spooledSQL lists chunks with personal data: of lines that have no outcome, or that failed.
	spooledSQL = `SELECT c.import_id, c.first_line, c.body FROM imports AS i JOIN import_chunks AS c USING (import_id)
WHERE i.integration_id = $1 AND i.purged_at IS NULL AND (c.unsettled > 0 OR c.failed > 0)
  AND (c.import_id, c.first_line) > ($2, $3)
ORDER BY c.import_id, c.first_line LIMIT 20`
	holdSQL = `UPDATE import_chunks SET holder = $3, leased_until = now() + $4::interval
WHERE import_id = $1 AND first_line = $2 AND (holder IS NULL OR holder = $3 OR leased_until < now())
RETURNING body, results`
	redactSQL = `UPDATE import_chunks SET body = $4, results = $5, holder = NULL
WHERE import_id = $1 AND first_line = $2 AND holder = $3`
)

// holdPause is the time between attempts to lease a chunk.
const holdPause = 50 * time.Millisecond

// EraseAuthor erases the lines of an author from the spool and returns their number. It leases each chunk with such
// lines. So when it returns, no line that was spooled before is being executed: what was stored is on record.
func EraseAuthor(ctx context.Context, pool *pgxpool.Pool, integration uuid.UUID, externalUUID string) (int, error) {
	erased, holder := 0, uuid.New()
	var id uuid.UUID
	first := int64(-1)
	type place struct {
		ID    uuid.UUID
		First int64
		Body  []byte
	}
	for {
		chunks, err := database.Collect(ctx, pool, "spooled lines", pgx.RowToStructByPos[place], spooledSQL, integration, id,
			first)
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
	if err != nil {
		return 0, err
	}
	hit := map[int64]bool{}
	for index, line := range lines {
		if isBy(line, author) {
			lines[index], hit[first+int64(index)+1] = []byte(erasedLine), true
		}
	}
	for i, encoded := range results {
		r, err := decodeResult(encoded)
		if err != nil {
			return 0, err
		}
		if !hit[r.Line] {
			continue
		}
		// The problem may quote the line.
		r.Problem = errErased.JSON(requestID(id, r.Line))
		if results[i], err = r.encode(); err != nil {
			return 0, err
		}
	}
	if _, err := pool.Exec(ctx, redactSQL, id, first, holder, packLines(lines), packLines(results)); err != nil {
		return 0, fmt.Errorf("erase lines: %w", err)
	}
	return len(hit), nil
}

// leaseChunk leases a chunk, as soon as no worker has it, and returns its lines and results.
func leaseChunk(
	ctx context.Context, pool *pgxpool.Pool, holder, id uuid.UUID, first int64,
) (lines, results [][]byte, err error) {
	for {
		var body, packed []byte
		err := pool.QueryRow(ctx, holdSQL, id, first, holder, lease).Scan(&body, &packed)
		switch {
		case err == nil:
			if lines, err = unpackLines(body); err == nil {
				results, err = unpackLines(packed)
			}
			return lines, results, err
		case !errors.Is(err, pgx.ErrNoRows):
			return nil, nil, fmt.Errorf("lease a chunk: %w", err)
		case !eventlog.Sleep(ctx, holdPause):
			return nil, nil, fmt.Errorf("wait for the lease of a chunk: %w", ctx.Err())
		}
	}
}

// errErased is the outcome of a line whose author was erased.
var errErased = problem.Gone().WithDetail("The staff of the host platform erased the author of this comment.")

// isBy reports whether a line is by an author. If the author of a line cannot be read, it counts if it contains the
// identifier anywhere.
func isBy(line []byte, author string) bool {
	e, err := readEnvelope(line)
	if err != nil || e.body == nil {
		return bytes.Contains(line, []byte(author))
	}
	var body struct {
		UUID string `json:"uuid"`
	}
	err = json.Unmarshal(e.body, &body, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return bytes.Contains(line, []byte(author))
	}
	return body.UUID == author
}
