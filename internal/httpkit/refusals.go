package httpkit

import (
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"novelgate/events/eventlog"
	"novelgate/internal/problem"
)

// Refusals beyond a rate are delayed: a flooder repeats a request as soon as it is refused, and a thousand connections
// of refusals take the processors from all other clients (measured on two: a median of 717 ms for a comment of another
// partner).
const (
	refusalsPerSecond = 50
	refusalPause      = time.Second
)

// Hold throttles a caller that causes too many refusals: if err is one refusal too many, it waits for a second, or
// until the client leaves, because a refusal without a reader must not hold a connection. Otherwise it returns at once.
// uuid.Nil is the caller of all requests without authentication.
func (k *Kit) Hold(r *http.Request, caller uuid.UUID, err error) {
	switch k.Problem(err).Code { //nolint:exhaustive // those that a flooder gets whatever it sends
	case problem.CodeUnauthorized, problem.CodeCapabilityDisabled, problem.CodeRateLimited:
	default:
		return
	}
	if !k.refusals.Of(caller, refusalsPerSecond, 2*refusalsPerSecond).AllowN(k.Now(), 1) {
		eventlog.Sleep(r.Context(), refusalPause)
	}
}

// Rates are token buckets, one for each caller. The zero value has none yet.
type Rates struct {
	mu      sync.Mutex
	buckets map[uuid.UUID]*rate.Limiter
}

// Of returns the bucket of a caller: of burst tokens, full at first, which fills up at a rate.
func (r *Rates) Of(caller uuid.UUID, limit rate.Limit, burst int) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	bucket := r.buckets[caller]
	if bucket == nil {
		if r.buckets == nil {
			r.buckets = map[uuid.UUID]*rate.Limiter{}
		}
		bucket = rate.NewLimiter(limit, burst)
		r.buckets[caller] = bucket
	}
	return bucket
}
