package changes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
	"novelgate/readapi/history"
)

// Partners admits requests of partners. If err is nil, the caller must call leave.
type Partners interface {
	AdmitPartner(ctx context.Context, w http.ResponseWriter, r *http.Request, stream bool) (integration uuid.UUID,
		leave func(), err error)
	StillAdmitted(ctx context.Context, r *http.Request) error
}

// API serves the change feed. The Problems of its Kit must include Problem.
type API struct {
	*httpkit.Kit

	Feed      *Feed
	Partners  Partners
	Draining  func() bool      // the process is shutting down, so streams end
	Streams   *httpkit.Readers // limits the open streams; nil: no limit
	Heartbeat time.Duration    // longest pause in a stream that follows the log; default 15 s
}

// Register adds the route to router.
func (a *API) Register(router *mux.Router) {
	router.HandleFunc("/api/integrations/changes", func(w http.ResponseWriter, r *http.Request) {
		answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := a.changes(w, r); err != nil {
				a.Fail(w, r, err)
			}
		})
		if httpkit.Names(r, httpkit.LineMediaType) {
			a.Streams.Limit(answer, a.Refuse).ServeHTTP(w, r)
			return
		}
		answer(w, r)
	}).Methods(http.MethodGet)
}

// Problem maps the errors of the feed to problems. It returns nil for any other error.
func Problem(err error) *problem.Error {
	if errors.Is(err, ErrBehind) {
		return problem.Unavailable(httpkit.RetryAfter).WithCause(err)
	}
	return nil
}

// Elsewhere refuses a cursor after a change that the service has lost. parameter is the name of the cursor's parameter.
func Elsewhere(parameter string) error {
	return problem.InvalidField(parameter, "is behind a change that this service no longer has, because its database was "+
		"set back: read the feed from its beginning, without a cursor, and pass over the ids that you know")
}

// The sizes of pages, and of the parts of a stream.
const (
	defaultPage = 100
	maxPage     = 1000
	streamPage  = 200
)

// changes handles GET /api/integrations/changes.
func (a *API) changes(w http.ResponseWriter, r *http.Request) error {
	lines := httpkit.Names(r, httpkit.LineMediaType)
	ctx, cancel := a.WithTimeout(r.Context())
	defer cancel()
	integration, leave, err := a.Partners.AdmitPartner(ctx, w, r, lines)
	if err != nil {
		return err
	}
	defer leave()
	q, limited, follow, err := a.parse(ctx, r, lines)
	if err != nil {
		return err
	}
	q.Integration = integration
	if lines {
		return a.stream(r.Context(), w, r, q, limited, follow) // without the time limit of a page
	}
	page, err := a.page(ctx, q)
	if err != nil {
		return err
	}
	body := struct {
		Items      []Change `json:"items"`
		Cursor     string   `json:"cursor"`
		NextCursor *string  `json:"nextCursor"`
	}{Items: page.Changes, Cursor: page.Next.String()}
	if page.More {
		body.NextCursor = &body.Cursor
	}
	return httpkit.SendJSON(w, http.StatusOK, body)
}

// parse reads the parameters. limited reports whether the limit was given.
func (a *API) parse(ctx context.Context, r *http.Request, lines bool) (q Query, limited, follow bool, err error) {
	query, err := httpkit.ReadStrictQuery(r.URL, "cursor", "types", "limit", "follow")
	if err != nil {
		return q, false, false, err //nolint:wrapcheck // already a problem
	}
	if wanted := query.Bool("follow"); wanted != nil && *wanted {
		if follow = true; !lines {
			query.Refuse("follow", "needs Accept: application/x-ndjson")
		}
	}
	q.Limit = defaultPage
	if limited = query.Given("limit"); limited {
		q.Limit, err = strconv.Atoi(query.Text("limit"))
		if err != nil || q.Limit < 1 || !lines && q.Limit > maxPage {
			query.Refuse("limit", fmt.Sprintf("must be a number from 1 to %d, or from 1 on for NDJSON", maxPage))
		}
	}
	if query.Given("types") {
		q.Types, err = ParseTypes(strings.Split(query.Text("types"), ","))
		if err != nil {
			query.Refuse("types", err.Error())
		}
	}
	now := query.Text("cursor") == "now"
	if !now {
		if q.After, err = history.ParseCursor(query.Text("cursor")); err != nil {
			query.Refuse("cursor", err.Error())
		}
	}
	if err := query.Err(); err != nil || !now {
		return q, limited, follow, err //nolint:wrapcheck // already a problem
	}
	q.After, err = a.Feed.Now(ctx)
	return q, limited, follow, err
}

// ParseTypes checks kinds of change.
func ParseTypes(types []string) ([]string, error) {
	kinds := events.ChangeKinds()
	for _, kind := range types {
		if !slices.Contains(kinds, kind) {
			return nil, errors.New("must be some of " + strings.Join(kinds, ", "))
		}
	}
	return types, nil
}

// page reads a page for a client.
func (a *API) page(ctx context.Context, q Query) (Page, error) {
	ctx, cancel := a.WithTimeout(ctx)
	defer cancel()
	page, err := a.Feed.Page(ctx, q)
	if errors.Is(err, history.ErrElsewhere) {
		return Page{}, Elsewhere("cursor")
	}
	return page, err
}

// streamPoll is the interval at which a stream reads changes.
const streamPoll = 400 * time.Millisecond

// errEnd ends a stream at its end.
var errEnd = errors.New("end of the stream")

// stream sends one change per line, up to the newest one or, with follow, without end.
func (a *API) stream(
	ctx context.Context, w http.ResponseWriter, r *http.Request, q Query, limited, follow bool,
) error {
	left := q.Limit
	out := &httpkit.Lines{
		Writer: w, Request: r, Now: a.Now, Heartbeat: a.Heartbeat,
		Allowed: func() error { return a.Partners.StillAdmitted(ctx, r) },
	}
	if follow {
		out.Draining = a.Draining
	}
	step := func(ctx context.Context) (eventlog.Span, error) {
		if q.Limit = streamPage; limited {
			q.Limit = min(streamPage, left)
		}
		page, err := a.page(ctx, q)
		if err != nil {
			return eventlog.Span{}, err
		}
		if err := out.Write(len(page.Changes), func(buffer []byte, i int) ([]byte, error) {
			encoded, err := json.Marshal(page.Changes[i])
			return append(buffer, encoded...), err
		}); err != nil {
			return eventlog.Span{}, err
		}
		if err := out.Idle(); err != nil {
			return eventlog.Span{}, err
		}
		q.After = page.Next
		if left -= len(page.Changes); limited && left == 0 || !page.More && !follow {
			return eventlog.Span{}, errEnd
		}
		return eventlog.Span{Full: page.More, Settled: true}, nil
	}
	err := out.Unlimited()
	if err == nil {
		// Without the wake-up of the log, because every comment causes one.
		if err = (&eventlog.Follow{Poll: streamPoll}).Each(ctx, step); errors.Is(err, errEnd) {
			err = nil
		}
	}
	return out.End(err, func(err error) {
		a.Logger.WarnContext(ctx, "a stream of changes broke off", slog.String("requestId", httpkit.RequestID(ctx)),
			slog.Any("error", err))
	})
}
