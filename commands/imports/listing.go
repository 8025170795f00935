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

// errPurged refuses requests for the lines or results of an import that is purged, or may be purged at present.
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

// sendLines sends the page of NDJSON that starts after the line in the parameter "after": outcomes with a status and a
// warning, or, with failed, the failed lines. The header Next-After has the parameter "after" of the next page; the
// last page has none.
func (a *API) sendLines(ctx context.Context, c *call, failed bool, parameters ...string) error {
	q, err := httpkit.ReadStrictQuery(c.r.URL, parameters...)
	if err != nil {
		return err
	}
	l := &listing{failed: failed, limit: q.Limit(defaultResults, maxResults)}
	if after := number(q, "after"); after != nil {
		l.last = *after
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
	found, err := c.execute(ctx, a.Store.find)
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
	if l.more {
		h.Set("Next-After", strconv.FormatInt(l.last, 10))
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

	page  []byte
	count int   // of lines in the page
	last  int64 // number of the last line in the page, or in the searched chunks
	more  bool  // another page follows
}

// search fills the page with lines after l.last.
func (l *listing) search(ctx context.Context, store *Store, id uuid.UUID) error {
	after, from := l.last, l.last-chunkLines+1 // a chunk that begins before from ends at l.last or before
	var searched int64
	for range resultChunks {
		c, err := store.nextListed(ctx, id, after, from, l.failed, l.status == Failed)
		if err != nil || c == nil {
			return err
		}
		if err := l.add(c, after); err != nil || l.more {
			return err
		}
		from, searched = c.first+1, c.first+c.lines
	}
	l.more, l.last = true, searched
	return nil
}

// add adds the lines of a chunk after a line, until the page is full.
func (l *listing) add(c *listedChunk, after int64) error {
	lines, err := unpackLines(c.body)
	if err != nil {
		return err
	}
	results, err := unpackLines(c.results)
	if err != nil {
		return err
	}
	for _, picked := range results {
		r, err := decodeResult(picked)
		if err != nil {
			return err
		}
		if r.Line <= after || !l.selects(&r) {
			continue
		}
		if l.failed {
			if picked = lines[r.Line-c.first-1]; !correctable(picked) {
				continue
			}
		}
		if l.more = l.count == l.limit || len(l.page) > resultBytes; l.more {
			return nil
		}
		l.page = append(append(l.page, picked...), '\n')
		l.count, l.last = l.count+1, r.Line
	}
	return nil
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
