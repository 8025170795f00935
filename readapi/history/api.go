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
	"novelgate/internal/auth"
	"novelgate/internal/database"
	"novelgate/internal/problem"
	"novelgate/internal/web"
)

// API serves the event history to auditors and staff. The Problems of its Kit must include Problem.
type API struct {
	*web.Kit

	DB   database.DB    // a pool with the settings of database.Pools.General
	Wake *eventlog.Wake // signals new events to streams that follow the log

	Staff        *auth.Staff
	Draining     func() bool   // the process is shutting down, so streams end
	WriteTimeout time.Duration // for a client to receive a part of a stream; default 30 s
	Heartbeat    time.Duration // longest pause in a stream that follows the log; default 15 s
}

// Register adds the routes to router.
func (a *API) Register(router *mux.Router) {
	filters := []string{
		"after", "before", "type", "integration", "novel", "correlation", "from", "to", "cursor", "limit", "follow",
	}
	for _, route := range []struct {
		path       string
		handle     handler
		parameters []string
	}{
		{"/api/events", a.events, append(filters, "stream", "streamType")},
		{"/api/events/{logIndex}", a.event, nil},
		{"/api/streams/{streamType}/{streamId}", a.events, filters},
		{"/api/access-log", a.listAccesses, []string{"limit", "cursor"}},
	} {
		router.Handle(route.path, a.serve(route.path, route.handle, route.parameters)).
			Methods(http.MethodGet)
	}
}

// handler sends the response to a read, or returns an error before it has sent anything.
type handler func(w http.ResponseWriter, rd *readRequest) error

// readRequest is an authenticated request.
type readRequest struct {
	*http.Request               // its context has the time limit
	client        *http.Request // without the time limit, for streams
	query         *web.Query
	access        Access
	checkKey      func(context.Context) error
}

// serve authenticates a request, parses its parameters and calls handle.
func (a *API) serve(route string, handle handler, parameters []string) http.Handler {
	return a.Staff.Handle(auth.Route[*auth.StaffUser]{}, func(
		ctx context.Context, c *auth.Call[*auth.StaffUser],
	) (_ *web.Answer, err error) {
		rd := &readRequest{Request: c.Request.WithContext(ctx), client: c.Request, checkKey: c.StillAllowed}
		if rd.query, err = web.ReadStrictQuery(rd.URL, parameters...); err != nil {
			return nil, err
		}
		sent := rd.query.All()
		for name, value := range mux.Vars(rd.Request) {
			sent["{"+name+"}"] = strings.ToValidUTF8(value, "?")
		}
		user := c.Caller
		rd.access = Access{
			Person: Person{
				Role: user.Role, Name: user.Name,
				PersonID: uuid.NullUUID{UUID: user.ID, Valid: true}, KeyID: uuid.NullUUID{UUID: user.KeyID, Valid: true},
			},
			RequestID: web.RequestID(ctx), Route: route, Parameters: sent,
		}
		return nil, handle(c.Writer, rd)
	})
}

// Problem maps the errors of the history to problems. It returns nil for any other error.
func Problem(err error) *problem.Error {
	switch {
	case errors.Is(err, ErrNotFound):
		return problem.ErrNotFound
	case errors.Is(err, ErrBeyond):
		return problem.InvalidField("after", "no event has this log index yet")
	case errors.Is(err, ErrCursorMismatch):
		return problem.InvalidField("cursor", ErrCursorMismatch.Error())
	default:
		return nil
	}
}
