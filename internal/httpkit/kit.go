// Package httpkit has the parts that all HTTP routes share: request ids, time limits, strict bodies and parameters,
// cursors, answers, problems and metrics. The packages with routes (commands, readapi and packages below them) add
// authentication, operations, and the meaning of their errors.
//
// A route returns an error or an answer. [Kit.Fail] turns an error into an answer and, if the service is at fault, a
// line of the log.
package httpkit

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"novelgate/events/eventlog"
	"novelgate/internal/problem"
)

// Kit is shared by all routes of a process. Its fields are set before the first request.
type Kit struct {
	Logger  *slog.Logger
	Timeout time.Duration    // for the answer, from the end of the request's body
	Now     func() time.Time // the clock
	// Readers limits the concurrent requests of readers; nil: no limit.
	Readers *ReadLimit
	// StaffReaders limits the concurrent requests of staff and auditors, except their streams; nil: no limit.
	StaffReaders *ReadLimit
	// Problems map errors of the domain to problems; each returns nil for an error that it does not know. Errors of the
	// database and of contexts need no entry.
	Problems []func(error) *problem.Error

	warned   atomic.Bool // a warning about an outage was logged less than warningInterval ago
	bodies   bodies
	refusals Rates // rates of refusals, by caller; callers that are not authenticated share that of uuid.Nil
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

// Fail answers a request with the problem for an error, as JSON.
func (k *Kit) Fail(w http.ResponseWriter, r *http.Request, err error) {
	p := k.Report(r, err)
	abandonBody(w, r)
	problem.Write(w, RequestID(r.Context()), p)
}

// Report returns the problem for an error, records its code for the metrics, and logs the error if the service is at
// fault. It is for routes with their own form of error answer; all others call Fail.
func (k *Kit) Report(r *http.Request, err error) *problem.Error {
	p := k.Problem(err)
	infoOf(r.Context()).code = p.Code
	k.log(r, p, err)
	return p
}

// warningInterval is the minimum time between two warnings about an outage.
const warningInterval = time.Second

// log logs each internal error, and one failure per second of an outage as a warning. The other failures of an outage
// have level debug, and errors of clients are not logged.
func (k *Kit) log(r *http.Request, p *problem.Error, err error) {
	level := slog.LevelError
	switch p.Code {
	case problem.CodeInternal:
	case problem.CodeUnavailable:
		level = slog.LevelDebug
		clientGone := errors.Is(r.Context().Err(), context.Canceled)
		if !clientGone && k.warned.CompareAndSwap(false, true) {
			time.AfterFunc(warningInterval, func() { k.warned.Store(false) })
			level = slog.LevelWarn
		}
	default: // the client's error
		return
	}
	// The path may contain personal data; the route does not.
	k.Logger.LogAttrs(r.Context(), level, "request failed", slog.String("method", r.Method),
		slog.String("route", routeOf(r)), slog.String("requestId", RequestID(r.Context())), slog.Any("error", err))
}

// WithTimeout limits a request to Timeout. It ignores the cancellation of ctx: a client may close its side of the
// connection after the request, which cancels ctx, and still read the answer. A client that disconnects costs no more
// than one that stays.
func (k *Kit) WithTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), k.Timeout)
}

// RecoverPanics answers with 500 when a handler panics, and logs the stack. It panics again with http.ErrAbortHandler,
// by which a handler aborts a stream.
func (k *Kit) RecoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { //nolint:contextcheck // the request has the context
			cause := recover()
			if cause == http.ErrAbortHandler { //nolint:errorlint // handlers panic with it unwrapped
				panic(cause)
			}
			if cause != nil {
				k.Logger.ErrorContext(r.Context(), "a handler panicked", slog.String("requestId", RequestID(r.Context())),
					slog.Any("cause", cause), slog.String("stack", string(debug.Stack())))
				infoOf(r.Context()).code = problem.CodeInternal
				problem.Write(w, RequestID(r.Context()), problem.Internal(nil))
			}
		}()
		next.ServeHTTP(w, r)
	})
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
