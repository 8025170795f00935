// Package bulk serves POST /api/integrations/bulk: thousands of commands in one request. Each line is a command of the
// live interface with its own key and outcome, so nothing of a request needs to be kept: a client whose connection is
// cut sends it again, and the lines that were executed are replays.
//
// A request is read as a whole (read.go), because a parent may come after its reply. Then its lines pass through the
// queue of the committer that yields to live commands (execute.go), and the outcomes are sent in the order of the lines
// while they arrive (answer.go).
package bulk

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"novelgate/commands/committer"
	"novelgate/internal/auth"
	"novelgate/internal/problem"
	"novelgate/internal/web"
)

// Committer executes commands: a *committer.Committer.
type Committer interface {
	Submit(ctx context.Context, cmd *committer.Command) (committer.Submitted, error)
}

// API serves bulk requests. Its fields are set before Register.
type API struct {
	*web.Kit

	Partners  *auth.Partners
	Committer Committer
	Addresses web.Addresses
	Draining  func() bool            // whether the process shuts down
	Outcomes  *prometheus.CounterVec // from NewOutcomes
	// Patience is the time without an outcome after which the rest of a request fails, because live commands take all
	// capacity; default 10 s.
	Patience time.Duration

	running sync.Map            // integrations with a request
	memory  *semaphore.Weighted // of all requests, in bytes
}

// NewOutcomes returns the metric of lines. The caller registers it.
func NewOutcomes() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "novelgate_bulk_lines_total",
		Help: "Lines of bulk requests by outcome: created, updated, unchanged, replayed, or the code of the problem.",
	}, []string{"outcome"})
}

// Limits of a request. A line has room for the largest body, its key, and members that are ignored.
const (
	maxLines = 10_000
	maxBytes = 16 << 20 // unpacked
	maxLine  = 64 << 10
)

// A request may take its bytes and, for its lines and their outcomes, overhead. memoryBudget has room for two of the
// largest requests: they make full batches, and more of them would only wait.
const (
	overhead     = 8 << 20
	memoryBudget = 2 * (maxBytes + overhead)
)

// bulk is the operation of refusals of a request as a whole, and of lines that name none.
const bulk = "bulk"

// receiveTime is the time for the body to arrive, which may be far larger than that of a command.
const receiveTime = time.Minute

// Register adds the route to router. Call it once.
func (a *API) Register(router *mux.Router) {
	a.memory = semaphore.NewWeighted(memoryBudget)
	router.Handle("/api/integrations/bulk", a.Partners.Handle(auth.Route[*auth.Integration]{
		Refusals: bulk, MediaType: web.LineMediaType, Allowed: mayImport,
	}, a.serve)).Methods(http.MethodPost)
}

// serve handles POST /api/integrations/bulk. After those of auth.Callers.Handle, the checks run in this order: coding
// (415), another request of the integration (429), memory (503), body (400, 408, 413). Until then no line has been
// executed.
func (a *API) serve(_ context.Context, c *auth.Call[*auth.Integration]) (*web.Answer, error) {
	release, err := a.admit(c.Request, c.Caller)
	if err != nil {
		return nil, err
	}
	defer release()

	// A writer without deadlines, such as a recorder in a test, is never slow.
	connection, now := http.NewResponseController(c.Writer), time.Now() //nolint:forbidigo // the clock of the connection
	_ = connection.SetReadDeadline(now.Add(receiveTime))
	_ = connection.SetWriteDeadline(now.Add(2 * receiveTime)) // of a refusal; each part of an answer has its own
	lines, err := a.receive(c.Request, c.Caller)
	if err != nil {
		return nil, err
	}
	return nil, a.respond(c, lines) //nolint:contextcheck // ctx ends long before the answer
}

// admit checks a request before its body arrives, and reserves its place and memory until release is called.
func (a *API) admit(r *http.Request, caller *auth.Integration) (release func(), err error) {
	coding, err := web.ContentCoding(r.Header, "gzip")
	switch {
	case err != nil:
		return nil, err
	case coding == "" && r.ContentLength > maxBytes:
		return nil, errTooLarge
	}
	if _, busy := a.running.LoadOrStore(caller.IntegrationID, nil); busy {
		return nil, problem.RateLimited(web.RetryAfter).WithDetail("Another bulk request of this integration is in " +
			"progress. Send this one when it is answered.")
	}
	size := int64(maxBytes + overhead)
	if r.ContentLength >= 0 && coding == "" {
		size = r.ContentLength + overhead
	}
	if !a.memory.TryAcquire(size) {
		a.running.Delete(caller.IntegrationID)
		return nil, problem.Unavailable(web.RetryAfter).WithDetail("Too many bulk requests are in progress. Repeat the " +
			"request after the time in Retry-After.")
	}
	return func() {
		a.memory.Release(size)
		a.running.Delete(caller.IntegrationID)
	}, nil
}

var errTooLarge = problem.PayloadTooLarge(maxBytes).WithDetail(fmt.Sprintf(
	"A bulk request has at most %d lines and %d bytes, unpacked. Nothing of it was executed: send it in parts.",
	maxLines, maxBytes))

// receive reads the lines of a request.
func (a *API) receive(r *http.Request, caller *auth.Integration) (lines []*line, err error) {
	var unpacked io.Reader = r.Body
	coding, _ := web.ContentCoding(r.Header, "gzip") // admit has refused any other
	if coding != "" {
		unpacked, err = gzip.NewReader(r.Body)
	}
	if err == nil {
		lines, err = readLines(http.MaxBytesReader(nil, io.NopCloser(unpacked), maxBytes), a.Now(), caller)
	}
	_, isTooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case err == nil:
		return lines, nil
	case isTooLarge, errors.Is(err, errTooLarge):
		return nil, errTooLarge
	case coding != "" && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, os.ErrDeadlineExceeded):
		return nil, problem.MalformedBody("The request body is not valid gzip.").WithCause(err)
	default:
		return nil, web.BrokenBody(err)
	}
}
