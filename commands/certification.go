package commands

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

// Results of a fault.
const (
	survived    = "survived"
	notSurvived = "not_survived"
	notTried    = "not_tried"
)

// certification says which simulated faults the client of an integration has survived.
type certification struct {
	Certified bool          `json:"certified"` // all survived
	Faults    []faultResult `json:"faults"`    // all, in a fixed order
}

// faultResult is the result of the newest command with a fault.
type faultResult struct {
	Fault          fault      `json:"fault"`
	Result         string     `json:"result"`
	Reason         string     `json:"reason"`
	Operation      *string    `json:"operation"` // nil, as the two below, when the fault was not tried
	IdempotencyKey *string    `json:"idempotencyKey"`
	At             *time.Time `json:"at"`
}

// recordedRequest is a request for a command, as the table sandbox_requests records it.
type recordedRequest struct {
	Operation, Key string
	BodyHash       []byte // SHA-256
	Fault          fault
	At             time.Time
	AnsweredAt     *time.Time
	Status         int // 0 without an answer
}

func (r recordedRequest) succeeded() bool {
	return r.Status >= http.StatusOK && r.Status < http.StatusMultipleChoices
}

// maxRequests is the number of the newest requests that count.
const maxRequests = 10_000

const recordedRequestsSQL = `SELECT operation, idempotency_key, body_sha256, coalesce(fault, ''), received_at, answered_at, coalesce(status, 0)
FROM (SELECT * FROM sandbox_requests WHERE integration_id = $1 ORDER BY request_id DESC LIMIT $2) AS r ORDER BY request_id`

func (a *API) certificationRoute() *route {
	return &route{method: http.MethodGet, path: "/api/integrations/certification", handle: a.certification}
}

// certification handles GET /api/integrations/certification. Outside of sandboxes no fault was tried.
func (a *API) certification(ctx context.Context, in *input) (*output, error) {
	requests, err := database.Collect(ctx, a.DB, "requests", pgx.RowToStructByPos[recordedRequest],
		recordedRequestsSQL, in.IntegrationID, maxRequests)
	if err != nil {
		return nil, err
	}
	answer := certification{Certified: true}
	for _, f := range faults {
		result := judge(f, requests)
		answer.Faults = append(answer.Faults, result)
		answer.Certified = answer.Certified && result.Result == survived
	}
	return &output{status: http.StatusOK, body: answer}, nil
}

// A repetition may come earlyTolerance before Retry-After has passed, because clocks are inaccurate, and lateTolerance
// after it, because patient clients pause.
const (
	earlyTolerance = 100 * time.Millisecond
	lateTolerance  = 5 * time.Minute
)

// judge returns the result of a fault from the requests of an integration, oldest first.
func judge(f fault, requests []recordedRequest) faultResult {
	at := len(requests) - 1
	for at >= 0 && requests[at].Fault != f {
		at--
	}
	if at < 0 {
		return faultResult{Fault: f, Result: notTried, Reason: "No command has met this fault."}
	}
	first := requests[at]
	result := faultResult{
		Fault: f, Result: notSurvived, Operation: &first.Operation, IdempotencyKey: &first.Key, At: &first.At,
	}
	var repetitions []recordedRequest
	for i, r := range requests {
		switch {
		case r.Operation != first.Operation, i <= at:
		case r.Key == first.Key:
			repetitions = append(repetitions, r)
		case r.At.Sub(first.At) < lateTolerance && slices.Equal(r.BodyHash, first.BodyHash) && isNew(r, requests[:i]):
			result.Reason = fmt.Sprintf("The same body was sent with another key, %q: the command may be stored twice.", r.Key)
			return result
		}
	}
	if first.succeeded() { // a slow answer
		result.Result, result.Reason = survived, "The client waited for the answer."
		return result
	}
	result.Reason = checkRepetitions(first, repetitions)
	if result.Reason == "" {
		result.Result, result.Reason = survived, "The command was sent again with the same key, and succeeded."
	}
	return result
}

// isNew reports whether a request is the first one of its key.
func isNew(r recordedRequest, before []recordedRequest) bool {
	return !slices.ContainsFunc(before,
		func(b recordedRequest) bool { return b.Key == r.Key && b.Operation == r.Operation })
}

// checkRepetitions returns an error text for the repetitions of a request, "" if they are correct.
func checkRepetitions(first recordedRequest, repetitions []recordedRequest) string {
	if len(repetitions) == 0 {
		if first.Status >= http.StatusBadRequest && first.Fault == slow {
			return fmt.Sprintf("The command was refused with %d.", first.Status)
		}
		return "The command was not sent again with the same key."
	}
	begun := first.At
	if first.AnsweredAt != nil && first.Fault.retryAfter() > 0 {
		begun = *first.AnsweredAt
	}
	pause := repetitions[0].At.Sub(begun).Round(100 * time.Millisecond)
	switch wait := first.Fault.retryAfter(); {
	case pause < wait-earlyTolerance:
		return fmt.Sprintf("The command was sent again after %v; Retry-After was %v.", pause, wait)
	case pause > wait+lateTolerance:
		return fmt.Sprintf("The command was sent again only after %v.", pause)
	}
	switch last := repetitions[len(repetitions)-1]; {
	case slices.ContainsFunc(repetitions,
		func(r recordedRequest) bool { return !slices.Equal(r.BodyHash, first.BodyHash) }):
		return "The command was sent again with another body."
	case slices.ContainsFunc(repetitions, recordedRequest.succeeded):
		return ""
	case last.Status == 0:
		return "The repetition has not been answered."
	default:
		return fmt.Sprintf("The repetition was answered with %d.", last.Status)
	}
}
