// Package commands serves the routes of partners: commands, which it passes to the committer, and queries about their
// integration, deliveries and titles. docs/SPEC.md (section 4) and docs/openapi.yaml describe the routes.
package commands

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"

	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/commands/request"
	"novelgate/internal/auth"
	"novelgate/internal/database"
	"novelgate/internal/problem"
	"novelgate/internal/web"
)

// Committer executes commands.
type Committer interface {
	Execute(ctx context.Context, cmd *committer.Command) (committer.Result, error)
}

// API serves partners. The Problems of the kit of Partners must include Problem.
type API struct {
	Partners  *auth.Partners
	Committer Committer
	Limits    Limits
	DB        database.DB            // for queries
	Outcomes  *prometheus.CounterVec // from NewOutcomes
	Addresses web.Addresses          // makes the URLs in answers
	Simulator *Simulator             // of a sandbox; nil elsewhere

	readiness readiness
}

// NewOutcomes returns the metric of commands. The caller registers it.
func NewOutcomes() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "novelgate_commands_total",
		Help: "Commands that passed authentication, by operation and outcome: created, updated, canonical, foreign, " +
			"edited, superseded, withdrawn, reported, replayed, or the code of the problem.",
	}, []string{"operation", "outcome"})
}

// Aliases for the signatures of operations.
type (
	call   = auth.Call[*auth.Integration]
	route  = auth.Route[*auth.Integration]
	answer = web.Answer
)

// Register adds the routes to router.
func (a *API) Register(router *mux.Router) {
	const base = "/api/integrations"
	add := func(method, path string, rt route, operation auth.Operation[*auth.Integration]) {
		router.Handle(base+path, a.Partners.Handle(rt, operation)).Methods(method)
	}
	command := func(
		method, path string, operation ratelimit.Operation, allowed func(*auth.Integration) error, execute execute,
	) {
		rt := route{Command: string(operation), MaxBody: request.MaxBody, Allowed: allowed}
		if method == http.MethodDelete {
			rt.MaxBody = 0
		}
		rt.Headers = func(h http.Header, caller *auth.Integration) {
			a.Limits.setHeaders(h, caller, limitOf(operation))
		}
		add(method, path, rt, a.command(operation, execute))
	}
	command(http.MethodPost, "/novels", ratelimit.Novels, MayCreateNovels, a.upsertNovel)
	command(http.MethodPost, "/posts", ratelimit.Posts, MayPost, a.importPost)
	// A key may hold slashes.
	const key = "/{idempotencyKey:(?s:.+)}"
	command(http.MethodPost, "/posts"+key+"/reports", Reports, MayPost, a.reportPost)
	command(http.MethodPatch, "/posts"+key, Edits, MayPost, a.editPost)
	command(http.MethodDelete, "/posts"+key, Withdrawals, MayPost, a.withdrawPost)
	add(http.MethodGet, "/me", route{}, a.me)
	add(http.MethodPost, "/deliveries/reconcile", route{MaxBody: maxReconcileBody}, a.reconcile)
	add(http.MethodGet, "/deliveries/{idempotencyKey:(?s:.*)}", route{}, a.showDelivery)
	add(http.MethodPost, "/resolve", route{MaxBody: request.MaxBody, Allowed: MayCreateNovels}, a.resolve)
}

// MayCreateNovels refuses an integration without the capability.
func MayCreateNovels(caller *auth.Integration) error {
	if !caller.CanCreateNovels {
		return problem.New(problem.CodeCapabilityDisabled, "This integration lacks the capability to create novels.")
	}
	return nil
}

// MayPost refuses an integration without the capability.
func MayPost(caller *auth.Integration) error {
	if !caller.CanPost {
		return problem.New(problem.CodeCapabilityDisabled, "This integration lacks the capability of post ingestion.")
	}
	return nil
}

// Operations about comments on record. They count against the limit of comments.
const (
	Edits       ratelimit.Operation = "edits"
	Withdrawals ratelimit.Operation = "withdrawals"
	Reports     ratelimit.Operation = "reports"
)

// limitOf returns the operation whose limit counts an operation.
func limitOf(operation ratelimit.Operation) ratelimit.Operation {
	if operation == ratelimit.Novels {
		return ratelimit.Novels
	}
	return ratelimit.Posts
}

// done has the outcome of operations on comments, for the metric.
var done = map[ratelimit.Operation]string{
	ratelimit.Posts: "created", Edits: "edited", Withdrawals: "withdrawn", Reports: "reported",
}

// Outcome returns the outcome of a command that succeeded, for the metric.
func Outcome(operation ratelimit.Operation, result *committer.Result) string {
	switch {
	case result.Replayed:
		return "replayed"
	case operation == ratelimit.Novels:
		return result.Outcome.String()
	case result.Superseded:
		return "superseded"
	default:
		return done[operation]
	}
}

// execute executes a command. Also with an error, outcome says whether the command repeats an earlier one.
type execute func(ctx context.Context, c *call, caller committer.Caller) (*answer, committer.Result, error)

// command returns the operation of a command: execute, with what all commands share.
func (a *API) command(operation ratelimit.Operation, execute execute) auth.Operation[*auth.Integration] {
	return func(ctx context.Context, c *call) (*answer, error) {
		i := c.Caller
		//nolint:contextcheck // only a simulated pause waits for the request's own context
		found, result, err := a.run(c, operation, func() (*answer, committer.Result, error) {
			return execute(ctx, c, committer.Caller{
				IntegrationID: i.IntegrationID, KeyID: i.KeyID, CanCreateNovels: i.CanCreateNovels, Review: i.Review,
				PostsPerMinute: i.PostsPerMinute, NovelsPerMinute: i.NovelsPerMinute, AuthorKey: i.AuthorKey,
				RequestID: web.RequestID(ctx), TraceParent: traceParent(c.Request.Header),
			})
		})
		web.SetReplayed(c.Writer.Header(), result.Replayed, result.Mismatch)
		var code problem.Code
		outcome := Outcome(operation, &result)
		if err != nil {
			code = a.Partners.Problem(err).Code
			outcome = string(code)
		}
		a.readiness.record(a.Partners.Now(), code)
		a.Outcomes.WithLabelValues(string(operation), outcome).Inc()
		return found, err
	}
}

// traceParentPattern matches version 00 of the W3C Trace Context header.
var traceParentPattern = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// traceParent returns the trace context of a request, or "". Identifiers of zeros are invalid.
func traceParent(h http.Header) string {
	sent := h.Get("Traceparent")
	if sent == "" || !traceParentPattern.MatchString(sent) ||
		strings.HasPrefix(sent, fmt.Sprintf("00-%032d-", 0)) || strings.Contains(sent, fmt.Sprintf("-%016d-", 0)) {
		return ""
	}
	return sent
}
