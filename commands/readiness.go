package commands

import (
	"errors"
	"sync"
	"time"

	"novelgate/internal/problem"
)

// Commands fail when, for failingAfter, at least one was answered that the service is unavailable and none succeeded.
// Once no command has failed for failingUntil the service counts as ready again, so that commands come and show it.
const (
	failingAfter = 2 * time.Second
	failingUntil = 10 * time.Second
)

// readiness judges by what happened to commands: a connection that can write does not show that a commit ends, that a
// table is not locked and that a disk has room. The zero value is ready.
type readiness struct {
	mu          sync.Mutex
	first, last time.Time // failures since the latest success
}

// note notes what became of a command: refusals say nothing about the service.
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

// ErrFailing says that the service does not carry commands out at present. The log says why.
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
