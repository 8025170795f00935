package imports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/commands/access"
	"novelgate/commands/ratelimit"
	"novelgate/commands/request"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// Partners admits requests of partners: a *commands.API. If err is nil, the caller must call leave.
type Partners interface {
	Admit(ctx context.Context, w http.ResponseWriter, r *http.Request) (
		caller *access.Integration, leave func(), err error)
	StillAdmitted(ctx context.Context, r *http.Request) error
}

// API serves the imports of partners.
type API struct {
	*httpkit.Kit

	Partners Partners
	Limits   Limits
	Store    *Store
	Wake     func() // called when there may be work; must not block
}

// Limits returns remaining limits: a *ratelimit.Limiter.
type Limits interface {
	Status(k ratelimit.Key, limit int) ratelimit.Decision
}

// linesLeft returns the remaining lines of the integration's limit.
func (a *API) linesLeft(c *call) ratelimit.Decision {
	return a.Limits.Status(ratelimit.Key{Integration: c.IntegrationID, Operation: ratelimit.Lines}, c.LinesPerMinute)
}

// Register adds the routes to router.
func (a *API) Register(router *mux.Router) {
	const all = "/api/integrations/imports"
	const one = all + "/{importId}"
	for _, route := range []struct {
		method, path string
		handle       func(context.Context, *call) error
	}{
		{http.MethodPost, all, a.open},
		{http.MethodGet, all, a.list},
		{http.MethodGet, one, a.show},
		{http.MethodDelete, one, a.cancel},
		{http.MethodPut, one + "/lines", a.receive},
		{http.MethodPost, one + "/complete", a.complete},
		{http.MethodGet, one + "/results", a.results},
		{http.MethodGet, one + "/failed", a.failed},
	} {
		router.HandleFunc(route.path, func(w http.ResponseWriter, r *http.Request) {
			if err := a.serve(w, r, route.handle); err != nil {
				a.Fail(w, r, err)
			}
		}).Methods(route.method)
	}
}

// call is a request that has passed the common checks.
type call struct {
	*access.Integration
	w http.ResponseWriter
	r *http.Request
}

// serve answers a request. Checks run in this order: API key (401), fair share (429), media type (415), disabled
// integration and capability (403), idempotency key or parameters (400), import (404), state and offset (409), space
// (429, 409).
func (a *API) serve(w http.ResponseWriter, r *http.Request, handle func(context.Context, *call) error) error {
	ctx, cancel := a.WithTimeout(r.Context())
	defer cancel()
	caller, leave, err := a.Partners.Admit(ctx, w, r)
	if err != nil {
		return err
	}
	defer leave()
	c := &call{Integration: caller, w: w, r: r}
	if sent := r.Header.Get("Content-Type"); r.Method == http.MethodPut && !httpkit.IsMediaType(sent, mediaType) {
		err = problem.UnsupportedMediaType(sent).WithDetail("The Content-Type must be " + mediaType + ".")
	}
	if err == nil {
		err = c.allowed()
	}
	if err == nil {
		err = handle(ctx, c)
	}
	if err != nil {
		a.DelayRefusal(r, caller.IntegrationID, err)
	}
	return err
}

func (c *call) allowed() error {
	switch {
	case !c.Enabled:
		return problem.CapabilityDisabled("This integration is disabled.")
	case !c.CanImport:
		return problem.CapabilityDisabled("This integration lacks the capability of bulk import.")
	default:
		return nil
	}
}

// mediaType is the media type of lines.
const mediaType = "application/x-ndjson"

// open handles POST /api/integrations/imports.
func (a *API) open(ctx context.Context, c *call) error {
	key, err := request.IdempotencyKey(c.r.Header)
	if err != nil {
		return err
	}
	opened, replayed, err := a.Store.open(ctx, c.IntegrationID, c.KeyID, key)
	if err != nil {
		return err
	}
	opened.estimate(a.linesLeft(c))
	httpkit.SetReplayed(c.w.Header(), replayed, false)
	if replayed {
		return httpkit.SendJSON(c.w, http.StatusOK, opened)
	}
	c.w.Header().Set("Location", c.r.URL.Path+"/"+opened.ID.String())
	return httpkit.SendJSON(c.w, http.StatusCreated, opened)
}

// importList names the list in its cursors, so that the cursor of another list is refused.
const importList = "imports/"

// list handles GET /api/integrations/imports.
func (a *API) list(ctx context.Context, c *call) error {
	q, err := httpkit.ReadStrictQuery(c.r.URL, "state", "limit", "cursor")
	if err != nil {
		return err
	}
	state := q.OneOf("state", string(Open), string(Processing), string(Completed), string(Cancelled), string(Abandoned))
	before, id := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), uuid.Max
	limit := q.Page(importList, func(sortKey string) error {
		at, last, _ := strings.Cut(sortKey, "/")
		micros, err := strconv.ParseInt(at, 10, 64)
		if err == nil {
			before = time.UnixMicro(micros)
			id, err = uuid.Parse(last)
		}
		return err
	})
	if err := q.Err(); err != nil {
		return err
	}
	found, err := a.Store.list(ctx, c.IntegrationID, before, id, state, limit+1)
	if err != nil {
		return err
	}
	for n := range found {
		found[n].estimate(a.linesLeft(c))
	}
	return httpkit.SendJSON(c.w, http.StatusOK, httpkit.NewPage(importList, found, limit, func(i *Import) string {
		return fmt.Sprintf("%d/%s", i.OpenedAt.UnixMicro(), i.ID)
	}))
}

// show handles GET /api/integrations/imports/{importId}.
func (a *API) show(ctx context.Context, c *call) error { return a.respond(ctx, c, a.Store.find) }

// complete handles POST /api/integrations/imports/{importId}/complete.
func (a *API) complete(ctx context.Context, c *call) error {
	q, err := httpkit.ReadStrictQuery(c.r.URL, "lines")
	if err != nil {
		return err
	}
	lines := number(q, "lines")
	if err := q.Err(); err != nil {
		return err
	}
	defer a.Wake()
	return a.respond(ctx, c, func(ctx context.Context, integration, id uuid.UUID) (Import, error) {
		return a.Store.complete(ctx, integration, id, lines)
	})
}

// cancel handles DELETE /api/integrations/imports/{importId}.
func (a *API) cancel(ctx context.Context, c *call) error { return a.respond(ctx, c, a.Store.cancel) }

// action reads or changes an import of an integration.
type action func(ctx context.Context, integration, id uuid.UUID) (Import, error)

// respond executes an action on the import in the path, and sends the import.
func (a *API) respond(ctx context.Context, c *call, do action) error {
	found, err := c.onImport(ctx, do)
	if err != nil {
		return err
	}
	found.estimate(a.linesLeft(c))
	return httpkit.SendJSON(c.w, http.StatusOK, found)
}

// onImport executes an action on the import in the path.
func (c *call) onImport(ctx context.Context, do action) (Import, error) {
	id, err := httpkit.PathID(c.r, "importId")
	if err != nil {
		return Import{}, err
	}
	return do(ctx, c.IntegrationID, id)
}

// number reads a parameter with a number of lines; nil without one.
func number(q *httpkit.Query, name string) *int64 {
	text := q.Text(name)
	if text == "" {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		q.Refuse(name, "must be a number of lines: 0 or greater")
	}
	return &n
}

// Times of a part, whose body may take longer than that of a command.
const (
	receiveTime = time.Minute
	answerTime  = receiveTime + 10*time.Second
)

// receive handles PUT /api/integrations/imports/{importId}/lines: it stores a part, and Next-Offset tells the offset of
// the next one.
func (a *API) receive(ctx context.Context, c *call) error {
	found, offset, err := a.destination(ctx, c)
	if err != nil {
		return err
	}
	coding := contentCoding(c.r.Header)
	if coding == "" && c.r.ContentLength > MaxPartBytes {
		return errTooManyBytes
	}
	memory := plainMemory
	if coding == zstdCoding {
		memory = zstdMemory
	}
	release, err := a.Reserve(c.IntegrationID, memory)
	if err != nil {
		return err
	}
	defer release()
	// A writer without deadlines (a recorder in a test) is never slow.
	connection, now := http.NewResponseController(c.w), time.Now() //nolint:forbidigo // the clock of the connection
	_ = connection.SetReadDeadline(now.Add(receiveTime))
	_ = connection.SetWriteDeadline(now.Add(answerTime))

	next, err := a.spool(c, found, offset, coding) //nolint:contextcheck // the body has more time than the answer
	if err != nil {
		return err
	}
	a.Wake()
	c.w.Header().Set("Next-Offset", strconv.FormatInt(next, 10))
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// destination returns the import and the offset of a part, if the import accepts a part there.
func (a *API) destination(ctx context.Context, c *call) (found Import, offset int64, err error) {
	q, err := httpkit.ReadStrictQuery(c.r.URL, "offset")
	if err != nil {
		return found, 0, err
	}
	sent := number(q, "offset")
	if sent == nil && q.Err() == nil {
		q.Refuse("offset", "is required: the number of lines before the part")
	}
	if err := q.Err(); err != nil {
		return found, 0, err
	}
	found, err = c.onImport(ctx, a.Store.find)
	switch {
	case err != nil:
	case found.State != Open:
		err = problem.ImportClosed(string(found.State))
	case *sent > found.Lines:
		err = problem.OffsetMismatch(found.Lines)
	case *sent == found.Lines: // otherwise the part is stored already
		err = a.Store.checkSpace(ctx, c.IntegrationID)
	}
	return found, *sent, err
}

// spool stores the lines of a part, or checks that the part is stored already. It returns the next offset.
func (a *API) spool(c *call, i Import, offset int64, coding string) (int64, error) {
	unpacked, err := unpack(coding, c.r.Body)
	if err != nil {
		return 0, bodyError(err, coding, offset)
	}
	defer unpacked.Close() //nolint:errcheck // it was only read from
	p := newPart(unpacked, offset)
	if offset < i.Lines {
		return a.matchStored(c, i, p, coding)
	}
	for {
		chunk, err := p.next()
		if errors.Is(err, io.EOF) {
			return p.before + p.count, nil
		}
		if err != nil {
			return 0, bodyError(err, coding, chunk.first)
		}
		// One time-out for each chunk: the client may be slow.
		ctx, cancel := a.WithTimeout(c.r.Context())
		stored, err := false, a.Partners.StillAdmitted(ctx, c.r) // the key may have been revoked meanwhile
		if err == nil {
			stored, err = a.Store.append(ctx, i.ID, &chunk, p)
		}
		cancel()
		if err != nil {
			return 0, err
		}
		if !stored {
			return 0, a.refusal(c, i.ID)
		}
		if chunk.last {
			return p.before + p.count, nil
		}
		a.Wake()
	}
}

// refusal returns the reason why a chunk was not stored: another request has changed the import.
func (a *API) refusal(c *call, id uuid.UUID) error {
	ctx, cancel := a.WithTimeout(c.r.Context())
	defer cancel()
	i, err := a.Store.find(ctx, c.IntegrationID, id)
	switch {
	case err != nil:
		return err
	case i.State != Open:
		return problem.ImportClosed(string(i.State))
	default:
		return problem.OffsetMismatch(i.Lines)
	}
}

// matchStored fails unless the import has this part at its offset. It returns the next offset.
func (a *API) matchStored(c *call, i Import, p *part, coding string) (int64, error) {
	ctx, cancel := a.WithTimeout(c.r.Context())
	defer cancel()
	lines, sum, err := a.Store.findPart(ctx, i.ID, p.before)
	switch {
	case err != nil:
		return 0, err
	case lines == 0:
		return 0, problem.OffsetMismatch(i.Lines)
	}
	for {
		if _, err := p.next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return 0, bodyError(err, coding, i.Lines)
		}
	}
	if !bytes.Equal(sum, p.sum()) {
		return 0, problem.OffsetMismatch(i.Lines)
	}
	return p.before + lines, nil
}

// bodyError returns the error for a body that could not be read. The lines before next are stored.
func bodyError(err error, coding string, next int64) error {
	p, ok := errors.AsType[*problem.Error](err)
	switch {
	case ok:
	case coding != "" && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, os.ErrDeadlineExceeded):
		p = problem.MalformedBody("The request body is not valid in its Content-Encoding.").WithCause(err)
	default:
		p = httpkit.BrokenBody(err)
	}
	c := *p
	c.Offset = &next
	return &c
}
