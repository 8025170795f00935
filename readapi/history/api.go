// Package history reads the event log in order, filtered, in pages or live, as stored bytes, and serves it to auditors
// and staff: /api/events, /api/streams and /api/access-log. docs/auditors.md and docs/openapi.yaml describe the routes.
// Every read is recorded; see AccessLog. It also folds events into the state of a novel, a discussion or an integration
// at a past moment.
//
// # Order and cursors
//
// Events come in the order of their log indexes. A reader that continues from its last Cursor gets every event once,
// however many transactions append at the same time.
//
// A cursor is valid only in its own log, and only until a failover or a restore sets that log back before it. So a
// Cursor identifies the event before it. Every page checks, on its own connection, that the log still has this event.
//
// # Synchronous standbys
//
// A commit whose wait for the synchronous standby is cancelled becomes visible, and a failover loses it. So no event
// and no cursor leaves the database before that standby has the event.
//
// # Bounded work
//
// A page is one batch of short statements. A filter without an index examines at most 20,000 rows of the log; the page
// then ends, short or empty, with the cursor of the next one. Only the filters by stream and by log index have an
// index. One for each other filter would slow down every append, and a million events pass a filter in 4 to 12 s on a
// busy machine (docs/auditors.md).
package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
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
		"after", "before", "type", "integration", "novel", "actor", "correlation", "day", "from", "to", "cursor", "limit",
		"follow",
	}
	for _, route := range []struct {
		path       string
		handle     func(w http.ResponseWriter, rd *readRequest) error
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

// readRequest is an authenticated request.
type readRequest struct {
	*http.Request               // its context has the time limit
	client        *http.Request // without the time limit, for streams
	query         *web.Query
	access        Access
	checkKey      func(context.Context) error
}

// serve authenticates a request, parses its parameters and calls handle, which sends the response, or returns an error
// before it has sent anything.
func (a *API) serve(
	route string, handle func(w http.ResponseWriter, rd *readRequest) error, parameters []string,
) http.Handler {
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
			Role: user.Role, Name: user.Name,
			PersonID: uuid.NullUUID{UUID: user.ID, Valid: true}, KeyID: uuid.NullUUID{UUID: user.KeyID, Valid: true},
			RequestID: web.RequestID(ctx), Route: route, Parameters: sent,
		}
		return nil, handle(c.Writer, rd)
	})
}

// Problem maps the errors of the history to problems. It returns nil for any other error.
func Problem(err error) *problem.Error {
	if unknown, ok := errors.AsType[*UnknownError](err); ok {
		return problem.InvalidField(unknown.Parameter, unknown.Message)
	}
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

// The sizes of pages.
const (
	defaultPage = 100
	maxPage     = 1000
)

// Range is the part of the log, or of a feed from it, that a client requests as a page or as a stream.
type Range struct {
	Cursor Cursor // start after it
	Now    bool   // start at the end of the log, instead of after Cursor
	Lines  bool   // as a stream (NDJSON); false: as a page
	Follow bool   // the stream continues at the end of the log
	Limit  int    // maximum number of events; 0: a stream without a limit
}

// ParseRange parses the parameters cursor, limit and follow, and the Accept header.
func ParseRange(r *http.Request, q *web.Query) Range {
	requested := Range{Lines: web.AcceptsByName(r, web.LineMediaType)}
	var err error
	if requested.Now = q.Text("cursor") == "now"; !requested.Now {
		if requested.Cursor, err = ParseCursor(q.Text("cursor")); err != nil {
			q.Refuse("cursor", err.Error())
		}
	}
	if requested.Lines {
		requested.Limit = q.Limit(0, math.MaxInt)
	} else {
		requested.Limit = q.Limit(defaultPage, maxPage)
	}
	if follow := q.Bool("follow"); follow != nil {
		if requested.Follow = *follow; requested.Follow && !requested.Lines {
			q.Refuse("follow", "needs Accept: "+web.LineMediaType)
		}
	}
	return requested
}

// parse parses the parameters of a request for events.
func (a *API) parse(rd *readRequest) (Range, Filter, error) {
	q := rd.query
	requested := ParseRange(rd.Request, q)
	filter := Filter{
		After: q.Index("after"), Before: q.Index("before"), Stream: q.ID("stream"), StreamType: q.Text("streamType"),
		Type: q.Text("type"), Correlation: q.Text("correlation"), From: q.Time("from"), To: q.Time("to"),
	}
	named := Named{
		Integration: q.Text("integration"), Novel: q.Text("novel"), Actor: q.Text("actor"), Day: q.Text("day"),
	}
	if requested.Follow && (filter.Before != nil || filter.To != nil || named.Day != "") {
		q.Refuse("follow", "does not end: it cannot be combined with before, day or to")
	}
	// An empty parameter is refused, because it would act as no filter.
	sent := q.All()
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		if sent[name] == "" && name != "cursor" {
			q.Refuse(name, "must not be empty")
		}
	}
	if err := q.Err(); err != nil {
		return requested, filter, err
	}
	return requested, filter, named.Resolve(rd.Context(), a.DB, &filter)
}

// events handles GET /api/events, and GET /api/streams/{streamType}/{streamId}: the events of one aggregate, as a
// stream or as a page.
func (a *API) events(w http.ResponseWriter, rd *readRequest) error {
	o, filter, err := a.parse(rd)
	if err != nil {
		return err
	}
	if text, ok := mux.Vars(rd.Request)["streamId"]; ok {
		id, ok := web.ParseID(text)
		if !ok {
			return problem.ErrNotFound
		}
		filter.Stream, filter.StreamType = uuid.NullUUID{UUID: id, Valid: true}, mux.Vars(rd.Request)["streamType"]
		// The other filters may leave a known stream without events; an unknown one is not found.
		kind, err := StreamType(rd.Context(), a.DB, id)
		if err != nil {
			return err
		}
		if kind != filter.StreamType {
			return ErrNotFound
		}
	}
	reader, err := NewReader(rd.Context(), a.DB, filter)
	if err != nil {
		return err
	}
	if o.Lines {
		return a.lines(w, rd, o, reader)
	}
	return a.page(w, rd, o, reader)
}

// page sends one page as JSON.
func (a *API) page(w http.ResponseWriter, rd *readRequest, o Range, reader *Reader) error {
	return a.sendRecorded(w, rd, "application/json", func(ctx context.Context) ([]byte, int64, error) {
		end, err := reader.End(ctx)
		if err != nil {
			return nil, 0, err
		}
		if o.Now {
			o.Cursor = end
		}
		page, err := reader.Page(ctx, o.Cursor, end, o.Limit)
		if err != nil {
			return nil, 0, err
		}
		called, err := Names(ctx, a.DB, page.Events)
		if err != nil {
			return nil, 0, err
		}
		// By hand, because an encoder would change the stored bytes. cursor is always the place to continue; nextCursor is
		// the same, or null at the end.
		body := []byte(`{"items":[`)
		for i := range page.Events {
			if i > 0 {
				body = append(body, ',')
			}
			if body, err = AppendCloudEvent(body, &page.Events[i]); err != nil {
				return nil, 0, err
			}
		}
		encoded, err := json.Marshal(called)
		if err != nil {
			return nil, 0, fmt.Errorf("render names: %w", err)
		}
		next := `"` + page.Next.String() + `"` // base64url
		body = append(append(append(body, `],"names":`...), encoded...), `,"cursor":`+next...)
		if !page.More {
			next = "null"
		}
		return append(body, `,"nextCursor":`+next+"}"...), int64(len(page.Events)), nil
	})
}

// event handles GET /api/events/{logIndex}.
func (a *API) event(w http.ResponseWriter, rd *readRequest) error {
	index, err := strconv.ParseInt(mux.Vars(rd.Request)["logIndex"], 10, 64)
	if err != nil || index < 0 {
		return problem.ErrNotFound
	}
	return a.sendRecorded(w, rd, eventlog.CloudEventType, func(ctx context.Context) ([]byte, int64, error) {
		found, err := At(ctx, a.DB, index)
		if err != nil {
			return nil, 0, err
		}
		body, err := AppendCloudEvent(nil, &found)
		return body, 1, err
	})
}

// lines sends a stream with one event per line. Unless it follows the log, it ends at the end of the log at the time of
// the request.
func (a *API) lines(w http.ResponseWriter, rd *readRequest, o Range, reader *Reader) error {
	if o.Now {
		end, err := reader.End(rd.Context())
		if err != nil {
			return err
		}
		o.Cursor = end
	}
	entry, err := a.accessLog().Begin(rd.Context(), &rd.access)
	if err != nil {
		return err
	}

	s := &Stream{Reader: reader, Limit: o.Limit, Follow: o.Follow, Wake: a.Wake}
	out := &web.Lines{
		Kit: a.Kit, Writer: w, Request: rd.client, WriteTimeout: a.WriteTimeout, Heartbeat: a.Heartbeat,
		CheckKey: func() error { return rd.checkKey(rd.client.Context()) },
	}
	if o.Follow {
		out.Draining = a.Draining
	}
	emit := func(list []Event) error {
		return out.Write(len(list), func(buffer []byte, i int) ([]byte, error) {
			return AppendCloudEvent(buffer, &list[i])
		})
	}
	defer func() { a.end(rd, entry, out.Sent) }()
	return out.Run(rd.client.Context(), func(ctx context.Context) error {
		return s.Run(ctx, o.Cursor, emit, out.KeepAlive)
	})
}

// sendRecorded sends the result of render, a body and its number of rows, once the entry of the access log is written.
// A failed read is recorded too.
func (a *API) sendRecorded(
	w http.ResponseWriter, rd *readRequest, mediaType string, render func(ctx context.Context) ([]byte, int64, error),
) error {
	entry, err := a.accessLog().Begin(rd.Context(), &rd.access)
	if err != nil {
		return err
	}
	body, rows, err := render(rd.Context())
	if err != nil {
		a.end(rd, entry, 0)
		return err
	}
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)                      // an error means that the client disconnected
	_ = http.NewResponseController(w).Flush() // before the entry is completed, so that the client does not wait for it
	a.end(rd, entry, rows)
	return nil
}

// end adds the number of rows to an entry of the access log, also after the client has disconnected.
func (a *API) end(rd *readRequest, entry, rows int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(rd.Context()), 5*time.Second)
	defer cancel()
	if err := a.accessLog().End(ctx, entry, rows); err != nil {
		a.Logger.WarnContext(ctx, "cannot record the rows of a read in the access log", slog.Int64("entry", entry),
			slog.Int64("rows", rows), slog.Any("error", err))
	}
}

func (a *API) accessLog() *AccessLog { return &AccessLog{DB: a.DB} }

// accessLogList is the name of the list in its cursors.
const accessLogList = "access-log/"

// listAccesses handles GET /api/access-log, newest entries first.
func (a *API) listAccesses(w http.ResponseWriter, rd *readRequest) error {
	before, limit := int64(math.MaxInt64), rd.query.Limit(defaultPage, maxPage)
	if place := rd.query.Cursor(accessLogList); place != "" {
		var err error
		if before, err = strconv.ParseInt(place, 10, 64); err != nil {
			rd.query.RefuseCursor()
		}
	}
	if err := rd.query.Err(); err != nil {
		return err
	}
	return a.sendRecorded(w, rd, "application/json", func(ctx context.Context) ([]byte, int64, error) {
		entries, err := a.accessLog().List(ctx, before, limit+1)
		if err != nil {
			return nil, 0, err
		}
		page := web.NewPage(accessLogList, entries, limit, func(e *AccessEntry) string {
			return strconv.FormatInt(e.ID, 10)
		})
		body, err := json.Marshal(page)
		if err != nil {
			return nil, 0, fmt.Errorf("render access log: %w", err)
		}
		return body, int64(len(page.Items)), nil
	})
}
