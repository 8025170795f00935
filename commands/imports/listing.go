package imports

import (
	"bytes"
	"context"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// Sizes of a page of results, in lines.
const (
	defaultResults = 1_000
	maxResults     = 10_000
)

// Limits of a page of results: it ends early at this number of bytes, or after a search of this number of chunks.
const (
	resultBytes  = 4 << 20
	resultChunks = 200
)

// errPurged refuses to list lines or results of an import whose purge has ended or may be running.
var errPurged = problem.Gone().WithDetail(
	"The lines and the results of this import were deleted some time after its end.")

// results handles GET /api/integrations/imports/{importId}/results.
func (a *API) results(ctx context.Context, c *call) error {
	return a.sendLines(ctx, c, false, "status", "warning", "after", "limit")
}

// failed handles GET /api/integrations/imports/{importId}/failed: the failed lines that the partner can correct.
func (a *API) failed(ctx context.Context, c *call) error {
	return a.sendLines(ctx, c, true, "after", "limit")
}

// sendLines sends a page of NDJSON: the outcomes that match the parameters status and warning, or, with failed, the
// failed lines. The page starts after the line whose number is the parameter after. The header Next-After has the value
// of after for the next page; the last page lacks the header.
func (a *API) sendLines(ctx context.Context, c *call, failed bool, parameters ...string) error {
	q, err := httpkit.ReadStrictQuery(c.r.URL, parameters...)
	if err != nil {
		return err
	}
	l := &listing{failed: failed, limit: q.Limit(defaultResults, maxResults)}
	if after := number(q, "after"); after != nil {
		l.after = *after
	}
	l.status = Status(q.OneOf("status", string(Created), string(Updated), string(Unchanged), string(Replayed),
		string(Failed)))
	l.warning = Warning(q.OneOf("warning", string(ParentNotFound), string(UnknownMember)))
	if failed {
		l.status = Failed
	}
	if err := q.Err(); err != nil {
		return err
	}
	found, err := c.onImport(ctx, a.Store.find)
	if err != nil {
		return err
	}
	if err := l.search(ctx, a.Store, found.ID); err != nil {
		return err
	}
	// Checked after the search: a purge that began meanwhile may have deleted a part of what it looked for.
	purged, err := a.Store.mayBePurged(ctx, found.ID)
	if err != nil {
		return err
	}
	if purged {
		return errPurged
	}
	h := c.w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Cache-Control", "no-store")
	if l.next > 0 {
		h.Set("Next-After", strconv.FormatInt(l.next, 10))
	}
	c.w.WriteHeader(http.StatusOK)
	_, _ = c.w.Write(l.page) // an error means that the client closed the connection
	return nil
}

// listing is a page of outcomes or failed lines.
type listing struct {
	failed  bool    // lists the lines instead of their outcomes
	status  Status  // "" for every outcome
	warning Warning // "" for outcomes with and without warnings
	limit   int     // of lines
	after   int64   // the page starts after the line with this number

	page  []byte
	count int   // of lines in the page
	last  int64 // number of the last line in the page
	next  int64 // after of the next page; 0 on the last page
}

// search fills the page.
func (l *listing) search(ctx context.Context, store *Store, id uuid.UUID) error {
	f := chunkFilter{
		after: l.after, minBefore: l.after - chunkLines + 1, // a chunk with fewer lines before it ends at l.after or before
		onlyFailed: l.status == Failed, withLines: l.failed,
	}
	var searched int64 // number of the last line in the searched chunks
	for range resultChunks {
		c, err := store.nextListed(ctx, id, f)
		if err != nil || c == nil {
			return err
		}
		full, err := l.add(c)
		if err != nil {
			return err
		}
		if full {
			l.next = l.last
			return nil
		}
		f.minBefore, searched = c.before+1, c.before+c.count
	}
	l.next = searched
	return nil
}

// add adds lines of a chunk. It reports whether the page is full before the last of them.
func (l *listing) add(c *listedChunk) (full bool, err error) {
	lines, err := unpackLines(c.lines)
	if err != nil {
		return false, err
	}
	results, err := unpackLines(c.results)
	if err != nil {
		return false, err
	}
	for _, result := range results {
		r, err := decodeResult(result)
		if err != nil {
			return false, err
		}
		if r.Line <= l.after || !l.selects(&r) {
			continue
		}
		line := result
		if l.failed {
			line = lines[r.Line-c.before-1]
			if !correctable(line) {
				continue
			}
		}
		if l.count == l.limit || len(l.page) > resultBytes {
			return true, nil
		}
		l.page = append(append(l.page, line...), '\n')
		l.count++
		l.last = r.Line
	}
	return false, nil
}

// selects reports whether an outcome has the status and the warning of the listing.
func (l *listing) selects(r *Result) bool {
	return (l.status == "" || r.Status == l.status) && (l.warning == "" || r.warns(l.warning))
}

// correctable reports whether a partner can correct a failed line. Lines that were too long to be stored, lines of
// erased authors and empty lines cannot be corrected.
func correctable(line []byte) bool {
	return len(line) <= maxLine && string(line) != erasedLine && len(bytes.TrimSpace(line)) > 0
}
