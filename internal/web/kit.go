// Package web is the way of a request from the socket to its operation and back, for all routes: one wrapper
// ([Kit.Handler]: request id, metrics, panics, route), strict bodies and parameters, cursors, answers and problems.
// Package auth adds the callers with a key. The packages with routes add operations and the meaning of their errors.
//
// An operation returns an error or an answer. [Kit.Fail] turns an error into an answer and, if the service is at fault,
// a line of the log.
package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"novelgate/events/eventlog"
	"novelgate/internal/problem"
)

// Kit is shared by all routes of a process. Its fields are set before the first request.
type Kit struct {
	Logger  *slog.Logger
	Timeout time.Duration    // for the answer, from the end of the request's body
	Now     func() time.Time // the clock
	Metrics *Metrics         // nil: requests are not counted
	Readers *Readers         // limits clients without a key; nil: no limit
	// Answered is called at the end of each request, with the labels of its metrics; nil: nothing.
	Answered func(ctx context.Context, requestID, method, route, code string)
	// Refused is called with each refused command of an integration, after its answer. It must not wait. nil: nothing.
	Refused func(r Refusal)
	// Problems map errors of the domain to problems; each returns nil for an error that it does not know. Errors of the
	// database and of contexts need no entry.
	Problems []func(error) *problem.Error

	refusals refusals
}

// RetryAfter is the value of the Retry-After header when an overload or an outage may end soon.
const RetryAfter = time.Second

// Problem returns the problem for an error.
func (k *Kit) Problem(err error) *problem.Error {
	if refused, ok := errors.AsType[*problem.Error](err); ok {
		return refused
	}
	for _, problemOf := range k.Problems {
		if p := problemOf(err); p != nil {
			return p
		}
	}
	if eventlog.IsAway(err) || eventlog.IsConflict(err) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled) {
		return problem.Unavailable(RetryAfter).WithCause(err)
	}
	return problem.Internal(err)
}

// refusedBodyTime is the time for the rest of a body to arrive after its request was refused.
const refusedBodyTime = 500 * time.Millisecond

// Fail answers a request with the problem for an error, as JSON, and returns its code.
func (k *Kit) Fail(w http.ResponseWriter, r *http.Request, err error) problem.Code {
	p := k.Report(r, err)
	if r.ContentLength != 0 {
		// net/http reads the rest of the body before it sends the refusal, to reuse the connection, and would wait for it as
		// long as for any body. A writer without deadlines, such as a recorder in a test, does not wait.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusedBodyTime)) //nolint:forbidigo // the clock of the connection
	}
	problem.Write(w, RequestID(r.Context()), p)
	return p.Code
}

// Report returns the problem for an error, records its code for the metrics, and logs the error if the service is at
// fault. It is for routes with their own form of error answer; all others call Fail.
func (k *Kit) Report(r *http.Request, err error) *problem.Error {
	p, in := k.Problem(err), infoOf(r.Context())
	in.code = p.Code
	level := slog.LevelError
	switch p.Code {
	case problem.CodeInternal:
	case problem.CodeUnavailable:
		level = slog.LevelDebug
		if clientGone := errors.Is(r.Context().Err(), context.Canceled); !clientGone {
			level = slog.LevelWarn
		}
	default: // the client's error
		return p
	}
	// The path may contain personal data; the route does not.
	k.Logger.LogAttrs(r.Context(), level, "request failed", slog.String("method", r.Method),
		slog.String("route", in.route), slog.String("requestId", in.id), slog.String("code", string(p.Code)),
		slog.Any("error", err))
	return p
}

// WithTimeout limits a request to Timeout. It ignores the cancellation of ctx: a client may close its side of the
// connection after the request, which cancels ctx, and still read the answer. A client that disconnects costs no more
// than one that stays.
func (k *Kit) WithTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), k.Timeout)
}

// Answer is the answer to a request of one client.
type Answer struct {
	Status   int    // 0: 200, or 204 without a Body
	Location string // of a 201
	Body     any    // is encoded as JSON
}

// Send sends the answer. On an error it has sent nothing.
func (a *Answer) Send(w http.ResponseWriter) error {
	h := w.Header()
	h.Set("Cache-Control", "no-store") // for one client only, and soon outdated
	if a.Body == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	encoded, err := json.Marshal(a.Body)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	if a.Location != "" {
		h.Set("Location", a.Location)
	}
	h.Set("Content-Type", "application/json")
	if a.Status != 0 {
		w.WriteHeader(a.Status)
	}
	_, _ = w.Write(encoded) // an error means that the client closed the connection
	return nil
}

// SetReplayed sets the headers for a retry. replayed: the answer is that of an earlier delivery; mismatch: the earlier
// delivery was another command.
func SetReplayed(h http.Header, replayed, mismatch bool) {
	if replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	if mismatch {
		h.Set("Idempotency-Mismatch", "true")
	}
}
