// Package commands is the write side of the service over HTTP: it parses, authenticates, checks and limits a request
// and hands the command to the committer. docs/SPEC.md (section 4) and docs/openapi.yaml describe what a partner sees.
package commands

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/commands/access"
	"novelgate/commands/committer"
	"novelgate/commands/problem"
	"novelgate/commands/ratelimit"
	"novelgate/events/eventlog"
)

// Authenticator finds out whose key a request carries.
type Authenticator interface {
	Authenticate(ctx context.Context, key string) (*access.Principal, error)
}

// Committer carries out commands.
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

// API serves the partner operations.
type API struct {
	Keys      Authenticator
	Committer Committer
	Limiter   Limiter
	Records   eventlog.Querier // reads what partners ask about
	Logger    *slog.Logger
	Metrics   *Metrics
	PublicURL string           // what the URLs in answers begin with; no slash at its end
	Timeout   time.Duration    // within which every request is answered
	Now       func() time.Time // time of receipt

	guard *guard // set by Register
}

// maxBody is the largest request body, in bytes (SPEC section 8).
const maxBody = 32 << 10

// Register adds the routes of the partner operations to router. It is called once.
func (a *API) Register(router *mux.Router) {
	a.guard = newGuard(a.Now)
	a.registerNovelRoutes(router)
	a.registerPostRoutes(router)
	a.registerSelfRoutes(router)
}

// operation is what the two routes have in common.
type operation struct {
	name    ratelimit.Operation
	limits  []ratelimit.Operation        // that the answer tells of
	allowed func(*access.Principal) bool // has the capability
	missing string                       // detail when it has not
	handle  func(ctx context.Context, in *input) (*output, error)
}

// input is a request that has passed every check up to its body.
type input struct {
	*access.Principal
	requestID   string
	traceParent string
	key         string
	body        []byte
	receivedAt  time.Time
}

// output is a successful answer.
type output struct {
	status   int
	location string
	replayed bool
	mismatch bool
	body     any
	outcome  string // for metrics
}

func (in *input) caller() committer.Caller {
	return committer.Caller{
		IntegrationID: in.IntegrationID, KeyID: in.KeyID, MayCreateNovels: in.CanCreateNovels, UnderReview: in.Review,
		NovelsPerMinute: in.NovelsPerMinute, NovelUpdatesPerMinute: in.NovelUpdatesPerMinute, RequestID: in.requestID,
		TraceParent: in.traceParent,
	}
}

// NotFound answers a request for an unknown path.
func NotFound(w http.ResponseWriter, r *http.Request) {
	Refuse(w, r, problem.NotFound())
}

// Refuse answers a request with an error, and lets the metrics know its code.
func Refuse(w http.ResponseWriter, r *http.Request, err *problem.Error) {
	NoteError(r.Context(), err.Code)
	problem.Write(w, RequestID(r.Context()), err)
}

// MethodNotAllowed answers a request for a path that router has for other methods.
func MethodNotAllowed(router *mux.Router) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, method := range []string{
			http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		} {
			other := r.Clone(r.Context())
			other.Method = method
			if match := new(mux.RouteMatch); router.Match(other, match) && match.MatchErr == nil {
				allowed = append(allowed, method)
			}
		}
		Refuse(w, r, problem.MethodNotAllowed(allowed...))
	})
}
