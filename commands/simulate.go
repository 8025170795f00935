package commands

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"

	"novelgate/commands/ratelimit"
	"novelgate/events/eventlog"
	"novelgate/internal/problem"
)

const simulateHeader = "Novelgate-Simulate"

// The values of the header, and how long a simulated failure takes, as docs/partners.md promises. slowTime is near the
// time-outs of usual clients, and below the server's time limit for an answer.
const (
	unavailable  = "unavailable"   // 503; nothing is executed
	rateLimited  = "rate_limited"  // 429; nothing is executed
	lostResponse = "lost_response" // executed, and the connection is cut
	slow         = "slow"          // executed, and answered after slowTime

	unavailableTime = 2 * time.Second
	rateLimitedTime = 3 * time.Second
	slowTime        = 10 * time.Second
)

// Simulator makes commands fail as their client asks. Only a sandbox has one. A command fails once in each process, so
// that a client may send the header again when it repeats the command.
type Simulator struct {
	failed *lru.Cache[failedCommand, struct{}]
}

type failedCommand struct {
	integration uuid.UUID
	operation   ratelimit.Operation
	key         string
}

// NewSimulator returns a Simulator that remembers the latest 10,000 failures.
func NewSimulator() *Simulator {
	failed, err := lru.New[failedCommand, struct{}](10_000)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &Simulator{failed}
}

// execute executes a command. In a sandbox it also simulates the failure that the client asks for.
func (a *API) execute(ctx context.Context, in *input, rt *route) (out *output, err error) {
	failure := in.request.Header.Get(simulateHeader)
	if failure == "" {
		return rt.handle(ctx, in)
	}
	if a.Simulator == nil {
		return nil, problem.InvalidField(simulateHeader, "works only in a sandbox, with its keys (ngt_…)")
	}
	if !slices.Contains([]string{unavailable, rateLimited, lostResponse, slow}, failure) {
		return nil, problem.InvalidField(simulateHeader, "must be unavailable, rate_limited, lost_response or slow")
	}
	again, _ := a.Simulator.failed.ContainsOrAdd(failedCommand{in.IntegrationID, rt.command, in.key}, struct{}{})
	if again {
		return rt.handle(ctx, in)
	}
	in.failure = failure
	switch failure {
	case unavailable:
		return nil, problem.Unavailable(unavailableTime)
	case rateLimited:
		return nil, problem.RateLimited(rateLimitedTime)
	}
	if out, err = rt.handle(ctx, in); failure == lostResponse {
		panic(http.ErrAbortHandler)
	}
	eventlog.Sleep(in.request.Context(), slowTime) //nolint:contextcheck // longer than ctx; ends when the client leaves
	return out, err
}
