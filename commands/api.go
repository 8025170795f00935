// Package commands serves the routes for partners. It authenticates, limits and parses a request and passes the command
// to the committer. It also serves the partners' queries about their integration, deliveries and titles. docs/SPEC.md
// (section 4) and docs/openapi.yaml describe the routes.
package commands

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"novelgate/commands/access"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/internal/database"
	"novelgate/internal/httpkit"
)

// Authenticator authenticates the key of an integration.
type Authenticator interface {
	Authenticate(ctx context.Context, key string) (*access.Principal, error)
}

// Committer executes commands.
type Committer interface {
	UpsertNovel(ctx context.Context, cmd *committer.UpsertNovel) (committer.NovelResult, error)
	ImportPost(ctx context.Context, cmd *committer.ImportPost) (committer.PostResult, error)
}

// Limiter counts requests and creations per minute.
type Limiter interface {
	Take(ctx context.Context, integration uuid.UUID, operation ratelimit.Operation, limit, n int) (ratelimit.Decision,
		error)
	Status(integration uuid.UUID, operation ratelimit.Operation, limit int) ratelimit.Decision
}

// Records runs queries: a pool.
type Records interface {
	database.Querier
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// API serves partners. The Problems of its Kit must include Problem.
type API struct {
	*httpkit.Kit

	Keys      Authenticator
	Committer Committer
	Limiter   Limiter
	Records   Records
	Outcomes  *prometheus.CounterVec // from NewOutcomes
	Addresses httpkit.Addresses      // in responses

	guard     *guard // set by Register
	readiness readiness
}

// NewOutcomes returns the metric of commands. The caller registers it.
func NewOutcomes() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "novelgate_commands_total",
		Help: "Commands by operation and outcome: created, updated, canonical, foreign, replayed, or the code of " +
			"the refusal.",
	}, []string{"operation", "outcome"})
}

// maxBody is the largest request body, in bytes (SPEC section 8).
const maxBody = 32 << 10

// Register adds the routes to router. Call it once.
func (a *API) Register(router *mux.Router) {
	a.guard = newGuard(a.Now)
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
	command      ratelimit.Operation          // "" for a query
	limits       []ratelimit.Operation        // of a command, in its response headers
	allowed      func(*access.Principal) bool // checks the capability; nil: none needed
	missing      string                       // detail of the 403 without it
	maxBody      int64                        // in bytes; 0 for a route without a body
	handle       func(ctx context.Context, in *input) (*output, error)
}

// input is a request that has passed all checks before its body.
type input struct {
	*access.Principal
	request     *http.Request
	requestID   string
	traceParent string
	key         string // of a command
	body        []byte
	receivedAt  time.Time
}

// output is a successful response.
type output struct {
	status   int
	location string // of a 201
	replayed bool
	mismatch bool
	body     any
	outcome  string // of a command, for metrics
}

func (in *input) caller() committer.Caller {
	return committer.Caller{
		IntegrationID: in.IntegrationID, KeyID: in.KeyID, MayCreateNovels: in.CanCreateNovels, UnderReview: in.Review,
		NovelsPerMinute: in.NovelsPerMinute, NovelUpdatesPerMinute: in.NovelUpdatesPerMinute, RequestID: in.requestID,
		TraceParent: in.traceParent,
	}
}
