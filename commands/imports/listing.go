package imports

import (
	"context"
	"net/http"
	"strconv"

	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// Sizes of a page of results, in lines.
const (
	standardResults = 1_000
	largestResults  = 10_000
)

// Limits of a page of results: it ends early at this number of bytes, or after a search of this number of chunks.
const (
	resultBytes  = 4 << 20
	resultChunks = 200
)

// errPurged refuses requests for the lines or results of a purged import.
var errPurged = problem.Gone().WithDetail(
	"The lines and the results of this import were deleted some time after its end.")

// results handles GET /api/integrations/imports/{importId}/results.
func (a *API) results(ctx context.Context, c *call) error {
	return a.lines(ctx, c, false, "status", "after", "limit")
}

// failed handles GET /api/integrations/imports/{importId}/failed: the lines themselves, without those that were too
// long to be stored and those of erased authors.
func (a *API) failed(ctx context.Context, c *call) error {
	return a.lines(ctx, c, true, "after", "limit")
}

// lines sends the page of NDJSON that starts after the line in the parameter "after": outcomes with a status, or, with
// failed, the failed lines. The header Next-After has the parameter "after" of the next page; the last page has none.
func (a *API) lines(ctx context.Context, c *call, failed bool, parameters ...string) error {
	q, err := httpkit.ReadStrictQuery(c.r.URL, parameters...)
	if err != nil {
		return err //nolint:wrapcheck // already a problem
	}
	after, limit := number(q, "after"), q.Limit(standardResults, largestResults)
	status := Status(q.OneOf("status", string(Created), string(Updated), string(Unchanged), string(Replayed),
		string(Failed)))
	if failed {
		status = Failed
	}
	if err := q.Err(); err != nil {
		return err //nolint:wrapcheck // already a problem
	}
	found, err := c.onImport(ctx, a.Store.find)
	switch {
	case err != nil:
		return err
	case found.PurgedAt != nil:
		return errPurged
	}
	var out []byte
	listed, last, more := 0, after, false
	from := after - chunkLines + 1
	for searched := 1; !more; searched++ {
		page, ok, err := a.Store.page(ctx, found.ID, after, from, failed, status == Failed)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		from = page.first + 1
		lines, err := unpackLines(page.body)
		if err != nil {
			return err
		}
		results, err := unpackLines(page.results)
		if err != nil {
			return err
		}
		for _, encoded := range results {
			r, err := decodeResult(encoded)
			if err != nil {
				return err
			}
			if r.Line <= after || status != "" && r.Status != status {
				continue
			}
			picked := encoded
			if failed {
				picked = lines[r.Line-page.first-1]
				if len(picked) > maxLine || string(picked) == erasedLine {
					continue
				}
			}
			if more = listed == limit || len(out) > resultBytes; more {
				break
			}
			out = append(append(out, picked...), '\n')
			listed, last = listed+1, r.Line
		}
		if !more && searched == resultChunks {
			more, last = true, page.first+page.lines
		}
	}
	h := c.w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Cache-Control", "no-store")
	if more {
		h.Set("Next-After", strconv.FormatInt(last, 10))
	}
	c.w.WriteHeader(http.StatusOK)
	_, _ = c.w.Write(out) // an error means that the client closed the connection
	return nil
}
