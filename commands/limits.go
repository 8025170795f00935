package commands

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"novelgate/commands/access"
	"novelgate/commands/ratelimit"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// Limits on the queries of one integration in one replica. They protect the other partners and are not part of the
// specification, so replicas count separately.
const (
	queriesPerWindow  = 200
	queryWindow       = 10 * time.Second
	concurrentQueries = 8
	waitingQueries    = 64 // waiting to run
	concurrentStreams = 4  // a streamed answer may take as long as the client reads
)

// queryLimits limits the queries of each integration, so that one does not slow the others. Create it with
// newQueryLimits.
type queryLimits struct {
	now     func() time.Time
	rates   httpkit.Rates
	running *ratelimit.Shares // concurrent queries
	streams *ratelimit.Shares // concurrent streams
}

func newQueryLimits(now func() time.Time) *queryLimits {
	return &queryLimits{
		now: now, running: ratelimit.NewShares(concurrentQueries, waitingQueries),
		streams: ratelimit.NewShares(concurrentStreams, 0),
	}
}

// tokens returns the token bucket of an integration's queries.
func (q *queryLimits) tokens(integration uuid.UUID) *rate.Limiter {
	return q.rates.Of(integration, rate.Every(queryWindow/queriesPerWindow), queriesPerWindow)
}

// enter waits until a query may run, or fails with a *problem.Error. After nil the caller must call running.Return.
func (q *queryLimits) enter(ctx context.Context, integration uuid.UUID) error {
	if !q.tokens(integration).AllowN(q.now(), 1) {
		return problem.QueriesLimited(queryWindow / queriesPerWindow)
	}
	if err := q.running.Take(ctx, integration); err != nil {
		return problem.QueriesLimited(shareRetryAfter).WithCause(err)
	}
	return nil
}

// status returns the tokens left in an integration's bucket, and the time until the bucket is full.
func (q *queryLimits) status(integration uuid.UUID) (remaining int, reset time.Duration) {
	tokens := max(0, q.tokens(integration).TokensAt(q.now()))
	return int(math.Floor(tokens)), time.Duration((queriesPerWindow - tokens) / queriesPerWindow * float64(queryWindow))
}

// setRateLimit sets RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers) for operations: q is the
// limit, w the window in seconds, r the remaining permits, t the seconds until all permits are available again. The
// header names are in Go's canonical form.
func (a *API) setRateLimit(h http.Header, caller *access.Integration, operations ...ratelimit.Operation) {
	h.Del("Ratelimit-Policy")
	h.Del("Ratelimit")
	for _, operation := range operations {
		limit, ok := perMinute(caller, operation)
		if !ok {
			continue
		}
		status := a.Limiter.Status(ratelimit.Key{Integration: caller.IntegrationID, Operation: operation}, limit)
		addRateLimit(h, string(operation), limit, ratelimit.Window, status.Remaining, status.Reset)
	}
}

// setCommandLimits sets the headers of a command: the limits of its route.
func (a *API) setCommandLimits(h http.Header, in *input, rt *route) {
	a.setRateLimit(h, in.Integration, rt.limits...)
	if in.failure == rateLimited {
		h.Set("Ratelimit", fmt.Sprintf(`"%s";r=0;t=%d`, rt.command, wholeSeconds(rateLimitedTime)))
	}
}

// setQueryLimits sets the headers of a query: all limits of the integration and the limit of queries.
func (a *API) setQueryLimits(h http.Header, caller *access.Integration) {
	a.setRateLimit(h, caller, ratelimit.Posts, ratelimit.Novels, ratelimit.NovelUpdates, ratelimit.Lines)
	remaining, reset := a.queries.status(caller.IntegrationID)
	addRateLimit(h, "queries", queriesPerWindow, queryWindow, remaining, reset)
}

func addRateLimit(h http.Header, name string, limit int, window time.Duration, remaining int, reset time.Duration) {
	add := func(field, parameters string) {
		if before := h.Get(field); before != "" {
			parameters = before + ", " + parameters
		}
		h.Set(field, parameters)
	}
	add("Ratelimit-Policy", `"`+name+`";q=`+strconv.Itoa(limit)+";w="+strconv.Itoa(int(window/time.Second)))
	add("Ratelimit", `"`+name+`";r=`+strconv.Itoa(remaining)+";t="+strconv.Itoa(wholeSeconds(reset)))
}

// perMinute returns an integration's limit of an operation, and false when it has none.
func perMinute(caller *access.Integration, operation ratelimit.Operation) (limit int, ok bool) {
	switch operation {
	case ratelimit.Posts:
		return caller.PostsPerMinute, true
	case ratelimit.Novels:
		return caller.NovelsPerMinute, true
	case ratelimit.Lines:
		return caller.LinesPerMinute, true
	case ratelimit.NovelUpdates:
		if caller.NovelUpdatesPerMinute != nil {
			return *caller.NovelUpdatesPerMinute, true
		}
	}
	return 0, false
}

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// meResponse is the response with the settings and limits of an integration.
type meResponse struct {
	IntegrationID uuid.UUID `json:"integrationId"`
	Name          string    `json:"name"`
	Enabled       bool      `json:"enabled"`      // always true: a disabled integration gets 403
	Capabilities  []string  `json:"capabilities"` // novels, posts, import, in this order
	Review        bool      `json:"review"`
	Key           struct {
		KeyID     uuid.UUID  `json:"keyId"`
		ExpiresAt *time.Time `json:"expiresAt"` // nil: never
	} `json:"key"` // of this request
	Limits struct {
		Posts  limitResponse `json:"posts"`
		Novels limitResponse `json:"novels"`
		// NovelUpdates is nil for no limit.
		NovelUpdates *limitResponse `json:"novelUpdates"`
		Lines        limitResponse  `json:"lines"` // of bulk imports
	} `json:"limits"`
}

// limitResponse is a limit in any 60 seconds and its current use.
type limitResponse struct {
	PerMinute    int `json:"perMinute"`
	Remaining    int `json:"remaining"`    // as known to this replica
	ResetSeconds int `json:"resetSeconds"` // until all permits are available again, rounded up
}

func (a *API) meRoute() *route {
	return &route{method: http.MethodGet, path: "/api/integrations/me", handle: a.me}
}

// me handles GET /api/integrations/me.
func (a *API) me(_ context.Context, in *input) (*output, error) {
	response := meResponse{IntegrationID: in.IntegrationID, Name: in.Name, Enabled: in.Enabled, Review: in.Review}
	response.Key.KeyID, response.Key.ExpiresAt = in.KeyID, in.KeyExpiresAt
	if in.CanCreateNovels {
		response.Capabilities = append(response.Capabilities, string(ratelimit.Novels))
	}
	if in.CanPost {
		response.Capabilities = append(response.Capabilities, string(ratelimit.Posts))
	}
	if in.CanImport {
		response.Capabilities = append(response.Capabilities, "import")
	}
	response.Limits.Posts = *a.limitOf(in, ratelimit.Posts)
	response.Limits.Novels = *a.limitOf(in, ratelimit.Novels)
	response.Limits.NovelUpdates = a.limitOf(in, ratelimit.NovelUpdates)
	response.Limits.Lines = *a.limitOf(in, ratelimit.Lines)
	return &output{status: http.StatusOK, body: response}, nil
}

// limitOf returns a limit with its current use, nil when there is none.
func (a *API) limitOf(in *input, operation ratelimit.Operation) *limitResponse {
	limit, ok := perMinute(in.Integration, operation)
	if !ok {
		return nil
	}
	status := a.Limiter.Status(ratelimit.Key{Integration: in.IntegrationID, Operation: operation}, limit)
	return &limitResponse{PerMinute: limit, Remaining: status.Remaining, ResetSeconds: wholeSeconds(status.Reset)}
}
