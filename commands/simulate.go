package commands

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"time"

	"novelgate/events/eventlog"
	"novelgate/internal/problem"
)

// fault is a value of the header Novelgate-Simulate.
type fault string

const (
	unavailable  fault = "unavailable"   // 503 with Retry-After; nothing is executed
	rateLimited  fault = "rate_limited"  // 429 with Retry-After; nothing is executed
	lostResponse fault = "lost_response" // executed, and the connection is cut
	slow         fault = "slow"          // executed, and answered after slowTime
)

var faults = []fault{unavailable, rateLimited, lostResponse, slow}

const simulateHeader = "Novelgate-Simulate"

// Waits of the faults, as docs/sandbox.md promises. slowTime is near the time-outs of usual clients, and below the
// server's time limit for an answer.
const (
	unavailableTime = 2 * time.Second
	rateLimitedTime = 3 * time.Second
	slowTime        = 10 * time.Second
)

// retryAfter is the Retry-After of a fault.
func (f fault) retryAfter() time.Duration {
	return map[fault]time.Duration{unavailable: unavailableTime, rateLimited: rateLimitedTime}[f]
}

// The requests of a sandbox are recorded with their faults, for the certification. Only the first request of a key has
// a fault, so that a client may send the header again when it repeats the command.
const (
	receivedSQL = `INSERT INTO sandbox_requests (integration_id, operation, idempotency_key, body_sha256, fault, received_at)
SELECT $1::uuid, $2::text, $3::text, $4, CASE WHEN NOT EXISTS (
    SELECT FROM sandbox_requests WHERE integration_id = $1 AND operation = $2 AND idempotency_key = $3
) THEN nullif($5, '') END, $6
RETURNING request_id, coalesce(fault, '')`

	answeredSQL = `UPDATE sandbox_requests SET answered_at = $2, status = nullif($3, 0) WHERE request_id = $1`
)

// execute executes a command. In a sandbox it also simulates the fault that the client asks for.
func (a *API) execute(ctx context.Context, in *input, rt *route) (*output, error) {
	wanted := fault(in.request.Header.Get(simulateHeader))
	switch {
	case a.Sandbox == nil && wanted == "":
		return rt.handle(ctx, in)
	case a.Sandbox == nil:
		return nil, problem.InvalidField(simulateHeader, "works only with the key of a sandbox (ngt_…)")
	case wanted != "" && !slices.Contains(faults, wanted):
		return nil, problem.InvalidField(simulateHeader, "must be unavailable, rate_limited, lost_response or slow")
	default:
		return a.simulate(ctx, in, rt, wanted)
	}
}

// simulate executes a command in a sandbox, and records the request and its answer. It simulates the wanted fault, ""
// for none, if the request is the first one of its key.
func (a *API) simulate(ctx context.Context, in *input, rt *route, wanted fault) (out *output, err error) {
	var id int64
	bodySHA256 := sha256.Sum256(in.body)
	if err := a.Sandbox.QueryRow(ctx, receivedSQL, in.IntegrationID, string(rt.command), in.key, bodySHA256[:],
		string(wanted), in.receivedAt).Scan(&id, &in.fault); err != nil {
		return nil, fmt.Errorf("record request: %w", err)
	}
	switch in.fault {
	case unavailable:
		err = problem.Unavailable(unavailableTime)
	case rateLimited:
		err = problem.RateLimited(rateLimitedTime)
	default:
		out, err = rt.handle(ctx, in)
	}
	answered := in.fault != lostResponse
	if in.fault == slow {
		client := in.request.Context()              // ends when the client leaves
		answered = eventlog.Sleep(client, slowTime) //nolint:contextcheck // it is longer than ctx
	}
	status := 0
	switch {
	case !answered:
	case err == nil:
		status = out.status
	default:
		status = a.Problem(err).Code.Status()
	}
	ctx, cancel := a.WithTimeout(ctx)
	defer cancel()
	if _, failed := a.Sandbox.Exec(ctx, answeredSQL, id, a.Now(), status); failed != nil {
		return nil, fmt.Errorf("record answer: %w", failed)
	}
	if in.fault == lostResponse {
		panic(http.ErrAbortHandler)
	}
	return out, err
}
