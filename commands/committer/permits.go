package committer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"novelgate/commands/ratelimit"
)

// permits are the novel creations that a batch was granted. They are kept over its retries, so that a conflict
// does not charge an integration twice.
type permits struct {
	source   Permits
	patience time.Duration // how long all waiting for the limiter may take
	waited   time.Duration
	holding  map[uuid.UUID]*holding
}

type holding struct {
	unused     int
	grants     []ratelimit.Decision // where the permits came from
	exhausted  bool                 // the limiter granted less than was asked for
	retryAfter time.Duration
	err        error // the limiter could not be asked
}

func newPermits(source Permits, patience time.Duration) *permits {
	return &permits{source: source, patience: patience, holding: map[uuid.UUID]*holding{}}
}

// reserve makes sure, as far as the limit allows, that n creations are at hand. A limiter that fails or does not
// answer is noted: it is the affair of the commands that create, not of their neighbours.
func (p *permits) reserve(ctx context.Context, integrationID uuid.UUID, limit, n int) {
	h, ok := p.holding[integrationID]
	if !ok {
		h = &holding{}
		p.holding[integrationID] = h
	}
	missing := n - h.unused
	if missing <= 0 || h.exhausted || h.err != nil {
		return
	}
	start := time.Now() //nolint:forbidigo // a duration
	ctx, cancel := context.WithTimeout(ctx, p.patience-p.waited)
	defer cancel()
	grant, err := p.source.Take(ctx, integrationID, ratelimit.Novels, limit, missing)
	p.waited += time.Since(start)
	if err != nil {
		h.err = fmt.Errorf("%w: take creation permits: %w", ErrUnavailable, err)
		return
	}
	h.unused += grant.Granted
	h.grants = append(h.grants, grant)
	h.exhausted, h.retryAfter = grant.Granted < missing, grant.RetryAfter
}

// spend uses one creation, or refuses with a *RateLimitedError or ErrUnavailable.
func (p *permits) spend(ctx context.Context, caller *Caller) error {
	p.reserve(ctx, caller.IntegrationID, caller.NovelsPerMinute, 1)
	h := p.holding[caller.IntegrationID]
	switch {
	case h.unused > 0:
	case h.err != nil:
		return h.err
	default:
		return &RateLimitedError{Limit: caller.NovelsPerMinute, RetryAfter: h.retryAfter}
	}
	h.unused--
	return nil
}

// unspend takes back the creations of an attempt that came to nothing.
func (p *permits) unspend(spent map[uuid.UUID]int) {
	for id, n := range spent {
		p.holding[id].unused += n
	}
}

// charge uses creations that were taken back too early, as far as they are still at hand, and returns those.
func (p *permits) charge(spent map[uuid.UUID]int) map[uuid.UUID]int {
	charged := make(map[uuid.UUID]int, len(spent))
	for id, n := range spent {
		charged[id] = min(n, p.holding[id].unused)
		p.holding[id].unused -= charged[id]
	}
	return charged
}

// trouble returns what went wrong with the limiter.
func (p *permits) trouble() error {
	var errs []error
	for _, h := range p.holding {
		errs = append(errs, h.err)
	}
	return errors.Join(errs...)
}

// returnUnused gives back what the batch did not need.
func (p *permits) returnUnused() error {
	var errs []error
	for id, h := range p.holding {
		for _, grant := range h.grants {
			n := min(h.unused, grant.Granted)
			if n == 0 {
				continue
			}
			// Not the batch's context: it may have run out, and the permits are still owed.
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			errs = append(errs, p.source.Return(ctx, id, ratelimit.Novels, grant, n))
			cancel()
			h.unused -= n
		}
	}
	return errors.Join(errs...)
}
