// Package commands serves the routes for partners. It authenticates, limits and parses a request and passes the command
// to the committer. It also serves the partners' queries about their integration, deliveries and titles. docs/SPEC.md
// (section 4) and docs/openapi.yaml describe the routes.
package commands

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"

	"novelgate/commands/access"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/commands/request"
	"novelgate/internal/database"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// Authenticator authenticates the key of an integration.
type Authenticator interface {
	Authenticate(ctx context.Context, key string) (*access.Integration, error)
}

// Committer executes commands.
type Committer interface {
	Execute(ctx context.Context, cmd *committer.Command) (committer.Result, error)
}

// Limiter knows the limits per minute.
type Limiter interface {
	Status(k ratelimit.Key, limit int) ratelimit.Decision
}

// API serves partners. The Problems of its Kit must include Problem.
type API struct {
	*httpkit.Kit

	Keys      Authenticator
	Committer Committer
	Limiter   Limiter
	DB        database.DB            // for queries
	Outcomes  *prometheus.CounterVec // from NewOutcomes
	Addresses httpkit.Addresses      // makes the URLs in responses
	Simulator *Simulator             // nil outside of a sandbox

	queries   *queryLimits // set by Register
	readiness readiness
}

// NewOutcomes returns the metric of commands. The caller registers it.
func NewOutcomes() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "novelgate_commands_total",
		Help: "Commands by operation and outcome: created, updated, canonical, foreign, replayed, or the code of " +
			"the problem.",
	}, []string{"operation", "outcome"})
}

// Register adds the routes to router. Call it once.
func (a *API) Register(router *mux.Router) {
	a.queries = newQueryLimits(a.Now)
	for _, r := range []*route{
		a.novelsRoute(), a.postsRoute(), a.meRoute(), a.reconcileRoute(), a.deliveryRoute(), a.resolveRoute(),
	} {
		router.Handle(r.path, a.handler(r)).Methods(r.method)
	}
}

// route is an operation of partners: a command or a query. A query stores nothing and does not count against the limits
// of commands.
type route struct {
	method, path string
	command      ratelimit.Operation            // "" for a query
	limits       []ratelimit.Operation          // limits of a command that its response headers show
	allowed      func(*access.Integration) bool // checks the capability; nil: none needed
	missing      string                         // detail of the 403 response without the capability
	maxBody      int64                          // in bytes; 0 for a route without a body
	handle       func(ctx context.Context, in *input) (*output, error)
}

// input is a request. A route handles it after the checks of serve.
type input struct {
	*access.Integration
	request     *http.Request
	requestID   string
	traceParent string
	key         string // idempotency key of a command
	failure     string // that was simulated; "" for none
	body        []byte
	receivedAt  time.Time
}

// output is a successful response.
type output struct {
	status   int
	location string // of a 201
	replayed bool   // the command is a retry
	mismatch bool   // the recorded command was different
	body     any
	outcome  string // of a command, for metrics
}

func (in *input) caller() committer.Caller {
	return committer.Caller{
		IntegrationID: in.IntegrationID, KeyID: in.KeyID, CanCreateNovels: in.CanCreateNovels, Review: in.Review,
		PostsPerMinute: in.PostsPerMinute, NovelsPerMinute: in.NovelsPerMinute,
		NovelUpdatesPerMinute: in.NovelUpdatesPerMinute, RequestID: in.requestID, TraceParent: in.traceParent,
	}
}

// handler serves a route. The checks of a command run in this order: API key (401), media type (415), size (413),
// disabled integration and capability (403), idempotency key, and then, in the operation, body, fair share, limit,
// replay, decision; the limit of an upsert comes after the replay. A query has no idempotency key. Its limit and fair
// share (429) are checked right after the API key, because its body may be large and a refused query stores nothing.
func (a *API) handler(rt *route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, err := a.serve(w, r, rt)
		if out != nil {
			httpkit.SetReplayed(w.Header(), out.replayed, out.mismatch)
		}
		if err == nil {
			err = a.respond(w, rt, out)
		}
		var code problem.Code
		if err != nil {
			a.Fail(w, r, err)
			code = a.Problem(err).Code
		}
		if rt.command != "" {
			a.readiness.record(a.Now(), err, code)
			outcome := string(code)
			if err == nil {
				outcome = out.outcome
			}
			a.Outcomes.WithLabelValues(string(rt.command), outcome).Inc()
		}
	})
}

// bodyGrace is the time in which a body normally arrives. The arrival of a slower body does not count against the
// time-out of the request, because the client is slow and not the service.
const bodyGrace = 50 * time.Millisecond

// serve returns the response to a request. With an error, output only says whether the request is a replay.
func (a *API) serve(w http.ResponseWriter, r *http.Request, rt *route) (out *output, err error) {
	ctx, cancel := a.WithTimeout(r.Context())
	defer cancel()
	in := &input{request: r, requestID: httpkit.RequestID(ctx), receivedAt: a.Now()}
	// For a command, done sets the headers, which then count its permit. For a query it returns the place of the query.
	done := func() { a.setCommandLimits(w.Header(), in, rt) }
	if rt.command == "" {
		in.Integration, done, err = a.Admit(ctx, w, r)
	} else if in.Integration, err = a.authenticate(ctx, r); err != nil {
		a.DelayRefusal(r, uuid.Nil, err)
	}
	if err != nil {
		return nil, err
	}
	if out, err = a.serveAdmitted(ctx, w, in, rt, done); err != nil {
		a.DelayRefusal(r, in.IntegrationID, err)
	}
	return out, err
}

// serveAdmitted returns the response to a request of an authenticated integration. In the end it calls done.
func (a *API) serveAdmitted(
	ctx context.Context, w http.ResponseWriter, in *input, rt *route, done func(),
) (_ *output, err error) {
	defer done()
	if rt.maxBody > 0 {
		before := a.Now()
		if in.body, err = a.ReadJSON(w, in.request, in.IntegrationID, rt.maxBody); err != nil {
			return nil, err
		}
		defer a.ReleaseBody(in.IntegrationID, in.body)
		if a.Now().Sub(before) > bodyGrace {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), a.Timeout-before.Sub(in.receivedAt))
			defer cancel()
			caller, err := a.authenticate(ctx, in.request) // the key may have been revoked meanwhile
			if err != nil {
				return nil, err
			}
			in.Integration = caller
		}
	}
	if err := enabled(in.Integration); err != nil {
		return nil, err
	}
	if rt.allowed != nil && !rt.allowed(in.Integration) {
		return nil, problem.CapabilityDisabled(rt.missing)
	}
	if rt.command != "" {
		if in.key, err = request.IdempotencyKey(in.request.Header); err != nil {
			return nil, err
		}
		in.traceParent = traceParent(in.request)
		return a.execute(ctx, in, rt)
	}
	return rt.handle(ctx, in)
}

// enter waits until a query may run. It fails if a limit is exceeded, the client disconnects or Timeout passes.
func (a *API) enter(r *http.Request, integration uuid.UUID) error {
	ctx, cancel := context.WithTimeout(r.Context(), a.Timeout)
	defer cancel()
	return a.queries.enter(ctx, integration)
}

// Admit authenticates a query, and checks the limits on queries of its integration. If err is nil, call leave after the
// answer.
func (a *API) Admit(ctx context.Context, w http.ResponseWriter, r *http.Request) (
	caller *access.Integration, leave func(), err error,
) {
	if caller, err = a.authenticate(ctx, r); err != nil {
		a.DelayRefusal(r, uuid.Nil, err)
		return nil, nil, err
	}
	id := caller.IntegrationID
	err = a.enter(r, id)
	a.setQueryLimits(w.Header(), caller)
	if err != nil {
		a.DelayRefusal(r, id, err)
		return nil, nil, err
	}
	return caller, func() { a.queries.running.Return(id) }, nil
}

// AdmitPartner is Admit for requests that need no capability: it also refuses a disabled integration. While a stream is
// open, it counts as a concurrent stream and not as a concurrent query.
func (a *API) AdmitPartner(ctx context.Context, w http.ResponseWriter, r *http.Request, stream bool) (
	integration uuid.UUID, leave func(), err error,
) {
	caller, leave, err := a.Admit(ctx, w, r)
	if err != nil {
		return uuid.Nil, nil, err
	}
	id := caller.IntegrationID
	if err = enabled(caller); err == nil && !stream {
		return id, leave, nil
	}
	leave()
	if err == nil {
		if err = a.queries.streams.Take(ctx, id); err == nil {
			return id, func() { a.queries.streams.Return(id) }, nil
		}
		err = problem.QueriesLimited(shareRetryAfter).WithCause(err)
	}
	a.DelayRefusal(r, id, err)
	return uuid.Nil, nil, err
}

// StillAdmitted checks that the key of a request is valid and its integration enabled. It counts against no limit, so a
// stream can repeat it.
func (a *API) StillAdmitted(ctx context.Context, r *http.Request) error {
	_, err := a.Readmit(ctx, r)
	return err
}

// Readmit is StillAdmitted, and returns the integration as it is now.
func (a *API) Readmit(ctx context.Context, r *http.Request) (*access.Integration, error) {
	caller, err := a.authenticate(ctx, r)
	if err == nil {
		err = enabled(caller)
	}
	return caller, err
}

// enabled refuses a disabled integration.
func enabled(caller *access.Integration) error {
	if !caller.Enabled {
		return problem.CapabilityDisabled("This integration is disabled.")
	}
	return nil
}

// authenticate returns the integration whose API key is in the request.
func (a *API) authenticate(ctx context.Context, r *http.Request) (*access.Integration, error) {
	key, err := httpkit.Bearer(r.Header, "API key")
	if err != nil {
		return nil, err
	}
	integration, err := a.Keys.Authenticate(ctx, key)
	switch {
	case errors.Is(err, access.ErrMalformed), errors.Is(err, access.ErrUnknown):
		return nil, problem.Unauthorized("The API key is not valid.")
	case errors.Is(err, access.ErrExpired):
		return nil, problem.Unauthorized("The API key has expired.")
	}
	return integration, err
}

// respond sends the output of a route. On an error it has sent nothing.
func (a *API) respond(w http.ResponseWriter, rt *route, out *output) error {
	if rt.command == "" {
		return httpkit.SendJSON(w, out.status, out.body)
	}
	if out.status == http.StatusCreated {
		w.Header().Set("Location", out.location)
	}
	return httpkit.SendStorable(w, out.status, out.body)
}

// traceParentPattern matches version 00 of the W3C Trace Context header.
var traceParentPattern = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// Trace and parent identifiers of all zeros are invalid.
const (
	noTrace  = "00-00000000000000000000000000000000-"
	noParent = "-0000000000000000-"
)

// traceParent returns the valid trace context of a request, or "".
func traceParent(r *http.Request) string {
	header := r.Header.Get("Traceparent")
	if header == "" || !traceParentPattern.MatchString(header) || strings.HasPrefix(header, noTrace) ||
		strings.Contains(header, noParent) {
		return ""
	}
	return header
}
