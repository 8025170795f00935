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
	"strings"
	"time"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"novelgate/commands/access"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// Partners admits requests of partners: a *commands.API.
type Partners interface {
	// Admit authenticates a request. If err is nil, the caller must call leave.
	Admit(ctx context.Context, w http.ResponseWriter, r *http.Request) (
		caller *access.Integration, leave func(), err error)
	// Readmit returns the integration as it is now, or the reason why its request must not go on.
	Readmit(ctx context.Context, r *http.Request) (*access.Integration, error)
}

// Committer executes commands: a *committer.Committer.
type Committer interface {
	Submit(ctx context.Context, cmd *committer.Command) (committer.Submitted, error)
}

// API serves bulk requests. Its fields are set before Register.
type API struct {
	*httpkit.Kit

	Partners  Partners
	Committer Committer
	Addresses httpkit.Addresses
	Draining  func() bool            // whether the process shuts down
	Outcomes  *prometheus.CounterVec // from NewOutcomes
	// Patience is the time without an outcome after which the rest of a request fails, because live commands take all
	// capacity; default 10 s.
	Patience time.Duration

	running *ratelimit.Shares   // requests by integration
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

// receiveTime is the time for the body to arrive, which may be far larger than that of a command.
const receiveTime = time.Minute

// Register adds the route to router. Call it once.
func (a *API) Register(router *mux.Router) {
	a.running, a.memory = ratelimit.NewShares(1, 0), semaphore.NewWeighted(memoryBudget)
	router.HandleFunc("/api/integrations/bulk", func(w http.ResponseWriter, r *http.Request) {
		if err := a.serve(w, r); err != nil {
			a.Fail(w, r, err)
		}
	}).Methods(http.MethodPost)
}

// serve answers a request. Checks run in this order: API key (401), limit of queries (429), media type and coding
// (415), capability (403), another request of the integration (429), memory (503), body (400, 408, 413). No line is
// executed before they have passed.
func (a *API) serve(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := a.WithTimeout(r.Context())
	defer cancel()
	caller, leave, err := a.Partners.Admit(ctx, w, r)
	if err != nil {
		return err
	}
	defer leave()
	release, err := a.admit(ctx, r, caller)
	if err != nil {
		a.DelayRefusal(r, caller.IntegrationID, err)
		return err
	}
	defer release()

	// A writer without deadlines, such as a recorder in a test, is never slow.
	connection, now := http.NewResponseController(w), time.Now() //nolint:forbidigo // the clock of the connection
	_ = connection.SetReadDeadline(now.Add(receiveTime))
	_ = connection.SetWriteDeadline(now.Add(2 * receiveTime)) // of a refusal; each part of an answer has its own
	lines, err := a.receive(r, caller)
	if err != nil {
		return err
	}
	return a.respond(w, r, caller, lines)
}

// admit checks a request before its body arrives, and reserves its place and memory until release is called.
func (a *API) admit(ctx context.Context, r *http.Request, caller *access.Integration) (release func(), err error) {
	if sent := r.Header.Get("Content-Type"); !httpkit.IsMediaType(sent, httpkit.LineMediaType) {
		return nil, problem.UnsupportedMediaType(sent).WithDetail("The Content-Type must be " + httpkit.LineMediaType + ".")
	}
	switch coding := r.Header.Get("Content-Encoding"); {
	case coding != "" && !isGzip(r):
		return nil, problem.UnsupportedMediaType(coding).WithDetail("The Content-Encoding must be gzip, or absent.")
	case !caller.Enabled:
		return nil, problem.CapabilityDisabled("This integration is disabled.")
	case !caller.CanImport:
		return nil, problem.CapabilityDisabled("This integration lacks the capability of bulk import.")
	case coding == "" && r.ContentLength > maxBytes:
		return nil, errTooLarge
	}
	if err := a.running.Take(ctx, caller.IntegrationID); err != nil {
		return nil, problem.RateLimited(httpkit.RetryAfter).WithDetail("Another bulk request of this integration is in " +
			"progress. Send this one when it is answered.").WithCause(err)
	}
	size := int64(maxBytes + overhead)
	if r.ContentLength >= 0 && !isGzip(r) {
		size = r.ContentLength + overhead
	}
	if !a.memory.TryAcquire(size) {
		a.running.Return(caller.IntegrationID)
		return nil, problem.Unavailable(httpkit.RetryAfter).WithDetail("Too many bulk requests are in progress. Repeat the " +
			"request after the time in Retry-After.")
	}
	return func() {
		a.memory.Release(size)
		a.running.Return(caller.IntegrationID)
	}, nil
}

func isGzip(r *http.Request) bool { return strings.EqualFold(r.Header.Get("Content-Encoding"), "gzip") }

var errTooLarge = problem.PayloadTooLarge(maxBytes).WithDetail(fmt.Sprintf(
	"A bulk request has at most %d lines and %d bytes, unpacked. Nothing of it was executed: send it in parts.",
	maxLines, maxBytes))

// receive reads the lines of a request.
func (a *API) receive(r *http.Request, caller *access.Integration) (lines []*line, err error) {
	var unpacked io.Reader = r.Body
	if isGzip(r) {
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
	case isGzip(r) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, os.ErrDeadlineExceeded):
		return nil, problem.MalformedBody("The request body is not valid gzip.").WithCause(err)
	default:
		return nil, httpkit.BrokenBody(err)
	}
}
