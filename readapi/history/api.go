package history

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// API serves the event history to auditors and staff. The Problems of its Kit must include Problem.
type API struct {
	*httpkit.Kit

	DB   database.DB    // a pool with the settings of database.Pools.History
	Wake *eventlog.Wake // signals new events to streams that follow the log

	// Authenticate returns the person who sends a request. An error other than *problem.Error means that the look-up
	// failed.
	Authenticate func(ctx context.Context, h http.Header) (Person, error)
	Draining     func() bool   // the process is shutting down, so streams end
	WriteTimeout time.Duration // for a client to receive a part of a stream; default 30 s
	Heartbeat    time.Duration // longest pause in a stream that follows the log; default 15 s
	// Streams limits the number of open streams. Each one holds up to half a megabyte for a slow client. nil: no limit.
	Streams *httpkit.ReadLimit
}

// Register adds the routes to router.
func (a *API) Register(router *mux.Router) {
	filters := []string{
		"after", "before", "type", "integration", "novel", "correlation", "from", "to", "cursor", "limit", "follow",
	}
	for _, route := range []struct {
		path       string
		handle     handler
		streams    bool // can send a stream
		parameters []string
	}{
		{"/api/events", a.events, true, append(filters, "stream", "streamType")},
		{"/api/events/{logIndex}", a.event, false, nil},
		{"/api/streams/{streamType}/{streamId}", a.events, true, filters},
		{"/api/access-log", a.listAccesses, false, []string{"limit", "cursor"}},
	} {
		router.Handle(route.path, a.serve(route.path, route.handle, route.streams, route.parameters)).
			Methods(http.MethodGet)
	}
}

// handler sends the response to a read, or returns an error before it has sent anything.
type handler func(w http.ResponseWriter, rd *readRequest) error

// readRequest is an authenticated request.
type readRequest struct {
	*http.Request               // its context has the time limit
	client        *http.Request // without the time limit, for streams
	query         *httpkit.Query
	access        Access
}

// serve authenticates a request and calls handle.
func (a *API) serve(route string, handle handler, streams bool, parameters []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := a.WithTimeout(r.Context())
		defer cancel()
		rd := &readRequest{Request: r.WithContext(ctx), client: r}
		if err := a.authenticate(ctx, rd, route, parameters); err != nil {
			a.Fail(w, r, err)
			return
		}
		readers := a.StaffReaders
		if streams && httpkit.AcceptsByName(r, httpkit.LineMediaType) {
			readers = a.Streams
		}
		readers.Limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := handle(w, rd); err != nil {
				a.Fail(w, r, err)
			}
		}), a.Fail).ServeHTTP(w, r)
	})
}

// authenticate authenticates a request and parses its query. It sets query and access.
func (a *API) authenticate(ctx context.Context, rd *readRequest, route string, parameters []string) error {
	person, err := a.Authenticate(ctx, rd.Header)
	if err != nil {
		a.DelayRefusal(rd.client, uuid.Nil, err)
		return err
	}
	if rd.query, err = httpkit.ReadStrictQuery(rd.URL, parameters...); err != nil {
		return err
	}
	sent := rd.query.All()
	for name, value := range mux.Vars(rd.Request) {
		sent["{"+name+"}"] = strings.ToValidUTF8(value, "?")
	}
	rd.access = Access{Person: person, RequestID: httpkit.RequestID(ctx), Route: route, Parameters: sent}
	return nil
}

// Problem maps the errors of the history to problems. It returns nil for any other error.
func Problem(err error) *problem.Error {
	switch {
	case errors.Is(err, ErrNotFound):
		return problem.NotFound()
	case errors.Is(err, ErrBeyond):
		return problem.InvalidField("after", "no event has this log index yet")
	case errors.Is(err, ErrCursorMismatch):
		return problem.InvalidField("cursor", ErrCursorMismatch.Error())
	default:
		return nil
	}
}
