package client

import (
	"context"
	"net/http"
	"time"
)

// Certification says which simulated faults the commands of an integration have survived.
type Certification struct {
	Certified bool    `json:"certified"` // all faults survived
	Faults    []Fault `json:"faults"`
}

// Fault is the result of the newest command with a fault.
type Fault struct {
	Fault  string `json:"fault"`  // unavailable, rate_limited, lost_response or slow
	Result string `json:"result"` // survived, not_survived or not_tried
	Reason string `json:"reason"`

	// Set if the fault was tried.
	Operation      *string    `json:"operation"`
	IdempotencyKey *string    `json:"idempotencyKey"`
	At             *time.Time `json:"at"`
}

// Certification returns the results of all faults that a sandbox simulates.
func (c *Client) Certification(ctx context.Context) (Certification, error) {
	var answer Certification
	_, err := c.sender.send(ctx, request{method: http.MethodGet, path: "/api/integrations/certification"}, &answer)
	return answer, err
}
