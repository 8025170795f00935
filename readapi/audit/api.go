// Package audit is the interface of auditors and staff to the event history over HTTP: /api/events, /api/streams and
// /api/access-log. docs/audit.md and docs/openapi.yaml describe it. Every read is recorded; see package accesslog.
package audit

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"novelgate/commands/problem"
	"novelgate/events/eventlog"
	"novelgate/readapi/accesslog"
	"novelgate/readapi/answer"
	"novelgate/readapi/history"
)

// Database is a pool with the settings of database.Pools.History.
type Database interface {
	history.Database
	accesslog.Database
}

// API serves auditors and staff.
type API struct {
	DB     Database
	Wake   *eventlog.Wake // tells streams that follow the log of new events
	Logger *slog.Logger
	Now    func() time.Time

	// Authenticate says who sent a request; errors are *problem.Error, or mean that it could not be found out.
	Authenticate func(ctx context.Context, h http.Header) (accesslog.Person, error)
	Refuse       func(w http.ResponseWriter, r *http.Request, p *problem.Error) // answers with an error, as all routes do
	RequestID    func(ctx context.Context) string
	Draining     func() bool   // the process is shutting down: streams end
	Timeout      time.Duration // within which every request is answered, but for streams
	WriteTimeout time.Duration // within which a client must take what a stream sends; default 30 s
	Heartbeat    time.Duration // a stream that follows sends something at least so often; default 15 s

	failures answer.Failures
}

// Default times of streams.
const (
	defaultWriteTimeout = 30 * time.Second
	defaultHeartbeat    = 15 * time.Second
)

// Register adds the routes to router.
func (a *API) Register(router *mux.Router) {
	for path, handle := range map[string]handler{
		"/api/events":                          a.events,
		"/api/events/{logIndex}":               a.event,
		"/api/streams/{streamType}/{streamId}": a.stream,
		"/api/access-log":                      a.accessLog,
	} {
		router.Handle(path, a.serve(path, handle)).Methods(http.MethodGet)
	}
}

// handler answers one read, or returns an error before anything was sent.
type handler func(w http.ResponseWriter, rd *read) error

// read is an authenticated request.
type read struct {
	*http.Request
	query map[string]string
	entry accesslog.Read
}

// serve authenticates and hands over.
func (a *API) serve(route string, handle handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.answer(w, r, route, handle); err != nil {
			a.refuse(w, r, err)
		}
	})
}

func (a *API) answer(w http.ResponseWriter, r *http.Request, route string, handle handler) error {
	ctx, cancel := context.WithTimeout(r.Context(), a.Timeout)
	defer cancel()
	person, err := a.Authenticate(ctx, r.Header)
	if err != nil {
		return err
	}
	query, err := problem.Parameters(r.URL, nil) // each handle knows which there are
	if err != nil {
		return err
	}
	parameters := maps.Clone(query)
	for name, value := range mux.Vars(r) {
		parameters["{"+name+"}"] = strings.ToValidUTF8(value, "?")
	}
	return handle(w, &read{Request: r, query: query, entry: accesslog.Read{
		Person: person, RequestID: a.RequestID(r.Context()), Route: route, Parameters: parameters,
	}})
}

// refuse is the one place where errors become what a client sees.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := toProblem(err)
	a.failures.Log(r, a.Logger, "history", p, slog.String("requestId", a.RequestID(r.Context())), slog.Any("error", err))
	a.Refuse(w, r, p)
}

func toProblem(err error) *problem.Error {
	var refused *problem.Error
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.Is(err, history.ErrNotFound):
		return problem.NotFound()
	case errors.Is(err, history.ErrBeyond):
		return invalid("after", "no event has this log index yet")
	case errors.Is(err, history.ErrElsewhere):
		return invalid("cursor", history.ErrElsewhere.Error())
	case eventlog.IsConflict(err), eventlog.IsAway(err):
		return problem.Unavailable(time.Second).WithDetail(
			"The service cannot answer now. Repeat the request after the time in Retry-After.").WithCause(err)
	default:
		return problem.Internal(err)
	}
}

func invalid(parameter, message string) *problem.Error {
	return problem.InvalidRequest(problem.FieldError{Field: parameter, Message: message})
}
