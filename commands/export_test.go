package commands

import (
	"time"
)

// Received is a recorded request of a command.
type Received = recordedRequest

// SetFault sets the fault that was simulated.
func (r *recordedRequest) SetFault(f string) { r.Fault = fault(f) }

// Judge returns the result of a fault, and its reason.
func Judge(f string, requests []Received) (result, reason string) {
	found := judge(fault(f), requests)
	return found.Result, found.Reason
}

// LateTolerance is how long a client may take beyond Retry-After.
const LateTolerance time.Duration = lateTolerance
