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

// Refusals beyond a rate are delayed. Otherwise a flooding client repeats each refused request at once. With a thousand
// such connections on two cores, a comment of another partner took 717 ms (median).
const (
	refusalsPerSecond = 50
	refusalDelay      = time.Second
)

// DelayRefusal waits for refusalDelay, or until the client disconnects, if err is a refusal of the key, of a
// capability or of a limit, and beyond the rate of its caller. Otherwise it returns at once. Callers that are not
// authenticated share the rate of uuid.Nil.
func (k *Kit) DelayRefusal(r *http.Request, caller uuid.UUID, err error) {
	switch k.Problem(err).Code {
	case problem.CodeUnauthorized, problem.CodeCapabilityDisabled, problem.CodeRateLimited:
	default:
		return
	}
	if !k.refusals.Of(caller, refusalsPerSecond, 2*refusalsPerSecond).AllowN(k.Now(), 1) {
		eventlog.Sleep(r.Context(), refusalDelay)
	}
}

// Rates has a token bucket for each caller. The zero value is ready for use.
type Rates struct {
	mu      sync.Mutex
	buckets map[uuid.UUID]*rate.Limiter
}

// Of returns the bucket of a caller. It holds burst tokens, starts full and refills at limit.
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
