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
	source  Permits
	holding map[uuid.UUID]*holding
}

type holding struct {
	unused     int
	grants     []ratelimit.Decision // where the permits came from
	exhausted  bool                 // the limiter granted less than was asked for
	retryAfter time.Duration
}

func newPermits(source Permits) *permits {
	return &permits{source: source, holding: map[uuid.UUID]*holding{}}
}

// reserve makes sure, as far as the limit allows, that n creations are at hand.
func (p *permits) reserve(ctx context.Context, integrationID uuid.UUID, limit, n int) error {
	h, ok := p.holding[integrationID]
	if !ok {
		h = &holding{}
		p.holding[integrationID] = h
	}
	missing := n - h.unused
	if missing <= 0 || h.exhausted {
		return nil
	}
	grant, err := p.source.Take(ctx, integrationID, ratelimit.Novels, limit, missing)
	if err != nil {
		return fmt.Errorf("take creation permits: %w", err)
	}
	h.unused += grant.Granted
	h.grants = append(h.grants, grant)
	h.exhausted, h.retryAfter = grant.Granted < missing, grant.RetryAfter
	return nil
}

// spend uses one creation, or refuses with a *RateLimitedError.
func (p *permits) spend(ctx context.Context, caller *Caller) error {
	if err := p.reserve(ctx, caller.IntegrationID, caller.NovelsPerMinute, 1); err != nil {
		return err
	}
	h := p.holding[caller.IntegrationID]
	if h.unused == 0 {
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
