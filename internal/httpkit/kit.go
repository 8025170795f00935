// Package httpkit is what all HTTP routes of the service share: request ids, time limits, strict bodies and
// parameters, cursors, answers, problems and metrics. The packages with routes (commands, readapi and those below
// them) add who may call, what to do, and which of their errors mean what.
//
// A route returns an error or an answer. [Kit.Fail] is the one place where an error becomes an answer and a line of
// the log.
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
	"novelgate/internal/database"
	"novelgate/internal/problem"
)

// Kit is shared by all routes of a process. Its fields are set before the first request.
type Kit struct {
	Logger  *slog.Logger
	Timeout time.Duration    // within which a request is answered, from the end of its body
	Now     func() time.Time // the clock
	// Readers bounds how many requests of readers are answered at a time; nil: any number.
	Readers *Readers
	// Staff does the same for staff and auditors, beside their streams.
	Staff *Readers
	// Standbys answer readers instead of the primary where they can; nil: there are none.
	Standbys *database.Standbys
	// Problems are asked in turn what an error of the domain means to a client; nil: it is not theirs. Errors of the
	// database and of contexts need no entry.
	Problems []func(error) *problem.Error

	quiet    atomic.Bool // a failure of the current outage is in the log
	bodies   bodies
	refusals Rates // uuid.Nil has those of callers who are not authenticated
}

// RetryAfter is what Retry-After says while the service cannot answer: the database is away or a queue is full.
const RetryAfter = time.Second

// Problem returns what a client is told about an error.
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

// Fail answers a request with an error. It returns the code that the client was told.
func (k *Kit) Fail(w http.ResponseWriter, r *http.Request, err error) problem.Code {
	p := k.Failure(r, err)
	leaveBody(w, r)
	problem.Write(w, RequestID(r.Context()), p)
	return p.Code
}

// Failure returns what a client is told about an error, for routes that write it in a form of their own. It notes the
// code for the metrics and logs the error if the service is at fault.
func (k *Kit) Failure(r *http.Request, err error) *problem.Error {
	p := k.Problem(err)
	infoOf(r.Context()).code = p.Code
	k.log(r, p, err)
	return p
}

// quietTime is the least time between two warnings about an outage.
const quietTime = time.Second

// log writes one line for each defect, and one a second for what an outage fails; the others of that second are at the
// level of debugging.
func (k *Kit) log(r *http.Request, p *problem.Error, err error) {
	level := slog.LevelError
	switch p.Code {
	case problem.CodeInternal:
	case problem.CodeUnavailable:
		level = slog.LevelDebug
		clientGone := errors.Is(r.Context().Err(), context.Canceled)
		if !clientGone && k.quiet.CompareAndSwap(false, true) {
			time.AfterFunc(quietTime, func() { k.quiet.Store(false) })
			level = slog.LevelWarn
		}
	default: // the client's error
		return
	}
	// The path may name a person; the route does not.
	k.Logger.LogAttrs(r.Context(), level, "request failed", slog.String("method", r.Method),
		slog.String("route", routeOf(r)), slog.String("requestId", RequestID(r.Context())), slog.Any("error", err))
}

// WithTimeout limits a request to the time that the service has for an answer. The end of ctx does not end it: a client
// may close its side of the connection after the request, which ends ctx, and still gets its answer. One that leaves
// altogether costs no more than one that stays.
func (k *Kit) WithTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), k.Timeout)
}

// RecoverPanics answers a request whose handler panicked with 500, and logs the stack. http.ErrAbortHandler passes: a
// stream that broke off ends with it.
func (k *Kit) RecoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { //nolint:contextcheck // the request has it
			cause := recover()
			if cause == http.ErrAbortHandler { //nolint:errorlint // it is panicked with as it is
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

// SetReplayed says that an answer is that of an earlier delivery, and whether that was another command.
func SetReplayed(h http.Header, replayed, mismatch bool) {
	if replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	if mismatch {
		h.Set("Idempotency-Mismatch", "true")
	}
}
