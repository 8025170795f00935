package commands

import (
	"errors"
	"sync"
	"time"

	"novelgate/internal/problem"
)

// readiness derives from the outcomes of commands whether the service works: not after two seconds with failed commands
// (503) and no success. A writable connection is not enough: commits may hang, a table may be locked, or the disk may
// be full. The zero value is ready.
type readiness struct {
	mu          sync.Mutex
	first, last time.Time // failures since the latest success; first is zero without any
}

// readyAgainAfter is the time without a failed command after which the service is ready again, so that new commands can
// show whether it works.
const readyAgainAfter = 10 * time.Second

// record records the outcome of a command, "" for a success. It ignores refusals and internal errors.
func (r *readiness) record(now time.Time, code problem.Code) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch code {
	case "":
		r.first = time.Time{}
	case problem.CodeUnavailable:
		if r.first.IsZero() || now.Sub(r.last) > readyAgainAfter {
			r.first = now
		}
		r.last = now
	}
}

// ErrFailing means that commands fail at present. The server log has the causes.
var ErrFailing = errors.New("commands fail, and none has succeeded since the first failure")

// Failing returns ErrFailing, or nil.
func (a *API) Failing() error {
	r := &a.readiness
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first.IsZero() || r.last.Sub(r.first) < 2*time.Second || a.Partners.Now().Sub(r.last) > readyAgainAfter {
		return nil
	}
	return ErrFailing
}
