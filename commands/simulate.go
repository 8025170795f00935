package commands

import (
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"

	"novelgate/commands/committer"
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

// run executes a command. In a sandbox it also simulates the failure that the client asks for.
func (a *API) run(
	c *call, operation ratelimit.Operation, execute func() (*answer, committer.Result, error),
) (found *answer, result committer.Result, err error) {
	failure := c.Request.Header.Get(simulateHeader)
	if failure == "" {
		return execute()
	}
	if a.Simulator == nil {
		return nil, result, problem.InvalidField(simulateHeader, "works only in a sandbox, with its keys (ngt_…)")
	}
	if !slices.Contains([]string{unavailable, rateLimited, lostResponse, slow}, failure) {
		return nil, result,
			problem.InvalidField(simulateHeader, "must be unavailable, rate_limited, lost_response or slow")
	}
	command := failedCommand{c.Caller.IntegrationID, operation, c.Key}
	if again, _ := a.Simulator.failed.ContainsOrAdd(command, struct{}{}); again {
		return execute()
	}
	switch failure {
	case unavailable:
		return nil, result, problem.Unavailable(unavailableTime)
	case rateLimited:
		return nil, result, problem.RateLimited(rateLimitedTime)
	}
	if found, result, err = execute(); failure == lostResponse {
		panic(http.ErrAbortHandler)
	}
	eventlog.Sleep(c.Request.Context(), slowTime) // longer than the time-out; ends when the client leaves
	return found, result, err
}
