package changes

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gorilla/mux"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/auth"
	"novelgate/internal/problem"
	"novelgate/internal/web"
	"novelgate/readapi/history"
)

// API serves the change feed.
type API struct {
	*web.Kit

	Feed      *Feed
	Partners  *auth.Partners
	Draining  func() bool   // the process is shutting down, so streams end
	Heartbeat time.Duration // longest pause in a stream that follows the log; default 15 s
}

// Register adds the route to router.
func (a *API) Register(router *mux.Router) {
	router.Handle("/api/integrations/changes", a.Partners.Handle(auth.Route[*auth.Integration]{}, a.changes)).
		Methods(http.MethodGet)
}

// streamPage is the maximum number of changes that a stream reads at once.
const streamPage = 200

// changes handles GET /api/integrations/changes.
func (a *API) changes(ctx context.Context, c *auth.Call[*auth.Integration]) (*web.Answer, error) {
	requested, types, err := parse(c.Request)
	if err != nil {
		return nil, err
	}
	q := Query{Integration: c.Caller.IntegrationID, After: requested.Cursor, Types: types, Limit: requested.Limit}
	if requested.Now {
		if q.After, err = a.Feed.Now(ctx); err != nil {
			return nil, err
		}
	}
	if web.AcceptsByName(c.Request, web.LineMediaType) {
		return nil, a.stream(c.Request.Context(), c, q, requested.Follow) //nolint:contextcheck // without the time limit of a page
	}
	page, err := a.page(ctx, q)
	if err != nil {
		return nil, err
	}
	body := struct {
		Items      []Change `json:"items"`
		Cursor     string   `json:"cursor"`
		NextCursor *string  `json:"nextCursor"`
	}{Items: page.Changes, Cursor: page.Next.String()}
	if page.More {
		body.NextCursor = &body.Cursor
	}
	return &web.Answer{Body: body}, nil
}

// parse parses the parameters. types is nil for all types.
func parse(r *http.Request) (requested history.Range, types []string, err error) {
	query, err := web.ReadStrictQuery(r.URL, "cursor", "types", "limit", "follow")
	if err != nil {
		return requested, nil, err
	}
	requested = history.ParseRange(r, query)
	if query.Given("types") {
		types = strings.Split(query.Text("types"), ",")
		known := events.ChangeKinds()
		if slices.ContainsFunc(types, func(t string) bool { return !slices.Contains(known, t) }) {
			query.Refuse("types", "must be some of "+strings.Join(known, ", "))
		}
	}
	return requested, types, query.Err()
}

// page reads a page. An error because of the cursor is a *problem.Error.
func (a *API) page(ctx context.Context, q Query) (Page, error) {
	page, err := a.Feed.Page(ctx, q)
	if errors.Is(err, history.ErrCursorMismatch) {
		return Page{}, problem.InvalidField("cursor", "does not match the log of this service, which was set back or is "+
			"another one: read the feed from its beginning, without a cursor, and skip the ids that you know")
	}
	return page, err
}

// streamPoll is the interval at which a stream reads changes.
const streamPoll = 400 * time.Millisecond

// stream sends one change per line, at most q.Limit (0: no limit). Without follow it ends after the newest change.
func (a *API) stream(ctx context.Context, c *auth.Call[*auth.Integration], q Query, follow bool) error {
	left, limited := q.Limit, q.Limit > 0
	out := &web.Lines{
		Kit: a.Kit, Writer: c.Writer, Request: c.Request, Heartbeat: a.Heartbeat,
		CheckKey: func() error { return c.StillAllowed(ctx) },
	}
	if follow {
		out.Draining = a.Draining
	}
	step := func(ctx context.Context) (eventlog.Span, error) {
		if q.Limit = streamPage; limited {
			q.Limit = min(streamPage, left)
		}
		reading, cancel := a.WithTimeout(ctx)
		page, err := a.page(reading, q)
		cancel()
		if err != nil {
			return eventlog.Span{}, err
		}
		if err := out.Write(len(page.Changes), func(buffer []byte, i int) ([]byte, error) {
			encoded, err := json.Marshal(page.Changes[i])
			return append(buffer, encoded...), err
		}); err != nil {
			return eventlog.Span{}, err
		}
		if err := out.KeepAlive(); err != nil {
			return eventlog.Span{}, err
		}
		q.After = page.Next
		if left -= len(page.Changes); limited && left == 0 || !page.More && !follow {
			return eventlog.Span{}, eventlog.ErrEnd
		}
		return eventlog.Span{Full: page.More}, nil // Full: read again at once; otherwise after Poll
	}
	return out.Run(ctx, func(ctx context.Context) error {
		// Without Wake: each new comment would wake every stream.
		return (&eventlog.Follow{Poll: streamPoll}).Each(ctx, step)
	})
}
