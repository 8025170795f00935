package commands

import (
	"errors"
	"sync"
	"time"

	"novelgate/internal/problem"
)

// The service is not ready after failingAfter with failed commands (503) and no success. After failingUntil without a
// failed command it is ready again, so that new commands can show whether it works.
const (
	failingAfter = 2 * time.Second
	failingUntil = 10 * time.Second
)

// readiness uses the outcomes of commands: a writable connection does not show that commits complete, that no table is
// locked and that the disk has room. The zero value is ready.
type readiness struct {
	mu          sync.Mutex
	first, last time.Time // failures since the latest success
}

// note records the outcome of a command. It ignores refusals.
func (r *readiness) note(now time.Time, err error, code problem.Code) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.first = time.Time{}
	case code == problem.CodeUnavailable:
		if r.first.IsZero() || now.Sub(r.last) > failingUntil {
			r.first = now
		}
		r.last = now
	}
}

// ErrFailing means that commands fail at present. The log has the causes.
var ErrFailing = errors.New("commands fail, and none has succeeded since the first did")

// Failing returns ErrFailing, or nil.
func (a *API) Failing() error {
	r := &a.readiness
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first.IsZero() || r.last.Sub(r.first) < failingAfter || a.Now().Sub(r.last) > failingUntil {
		return nil
	}
	return ErrFailing
}
