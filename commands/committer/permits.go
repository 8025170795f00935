package committer

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"novelgate/commands/ratelimit"
)

// permits are the creations and updates of novels that a batch was granted. They are kept over its retries, so that a
// conflict does not charge an integration twice.
type permits struct {
	source   Permits
	logger   *slog.Logger
	patience time.Duration // how long the batch may still wait for the limiter
	holding  map[window]*holding
}

// window is what permits are counted in.
type window struct {
	integration uuid.UUID
	operation   ratelimit.Operation
}

// limited returns a window of the caller and its limit; false when it has none.
func (c *Caller) limited(operation ratelimit.Operation) (w window, limit int, ok bool) {
	w = window{c.IntegrationID, operation}
	switch {
	case c.Unlimited:
		return w, 0, false
	case operation == ratelimit.Novels:
		return w, c.NovelsPerMinute, true
	case c.NovelUpdatesPerMinute != nil:
		return w, *c.NovelUpdatesPerMinute, true
	default:
		return w, 0, false
	}
}

type holding struct {
	unused     int
	grants     []ratelimit.Decision // where the permits came from
	exhausted  bool                 // the limiter granted less than was asked for
	retryAfter time.Duration
	err        error // the limiter could not be asked
}

func newPermits(source Permits, logger *slog.Logger, patience time.Duration) *permits {
	return &permits{source: source, logger: logger, patience: patience, holding: map[window]*holding{}}
}

// reserve makes sure, as far as the limit allows, that n permits are at hand. A limiter that fails or does not answer
// fails the commands that need a permit, not their neighbours.
func (p *permits) reserve(ctx context.Context, w window, limit, n int) {
	h, ok := p.holding[w]
	if !ok {
		h = &holding{}
		p.holding[w] = h
	}
	missing := n - h.unused
	if missing <= 0 || h.exhausted || h.err != nil {
		return
	}
	start := time.Now() //nolint:forbidigo // a duration
	ctx, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	grant, err := p.source.Take(ctx, w.integration, w.operation, limit, missing)
	p.patience -= time.Since(start)
	if err != nil {
		p.logger.WarnContext(ctx, "creations or updates of novels refused: the limiter is away", slog.Any("error", err))
		h.err = fmt.Errorf("%w: take %s permits: %w", ErrUnavailable, w.operation, err)
		return
	}
	h.unused += grant.Granted
	h.grants = append(h.grants, grant)
	h.exhausted, h.retryAfter = grant.Granted < missing, grant.RetryAfter
}

// spend uses one permit, or refuses with a *RateLimitedError or ErrUnavailable.
func (p *permits) spend(ctx context.Context, w window, limit int) error {
	p.reserve(ctx, w, limit, 1)
	h := p.holding[w]
	switch {
	case h.unused > 0:
	case h.err != nil:
		return h.err
	default:
		return &RateLimitedError{Operation: w.operation, Limit: limit, RetryAfter: h.retryAfter}
	}
	h.unused--
	return nil
}

// unspend takes back the permits of an attempt that came to nothing.
func (p *permits) unspend(spent map[window]int) {
	for w, n := range spent {
		p.holding[w].unused += n
	}
}

// charge uses permits that were taken back too early, as far as they are still at hand.
func (p *permits) charge(spent map[window]int) {
	for w, n := range spent {
		p.holding[w].unused -= min(n, p.holding[w].unused)
	}
}

// returnUnused gives back what the batch did not need.
func (p *permits) returnUnused() {
	for w, h := range p.holding {
		for _, grant := range h.grants {
			n := min(h.unused, grant.Granted)
			if n == 0 {
				continue
			}
			// Not the batch's context: it may have run out, and the permits are still owed.
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			if err := p.source.Return(ctx, w.integration, w.operation, grant, n); err != nil {
				p.logger.WarnContext(ctx, "could not return permits", slog.Any("error", err))
			}
			cancel()
			h.unused -= n
		}
	}
}
