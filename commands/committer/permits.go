package committer

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"novelgate/commands/ratelimit"
)

// permits are the permits of a batch to create and update novels. They are kept over its attempts, so that a conflict
// does not charge an integration twice.
type permits struct {
	limiter  Limiter
	logger   *slog.Logger
	timeLeft time.Duration // to wait for the limiter
	holding  map[window]*holding
}

// window identifies a limit.
type window struct {
	integration uuid.UUID
	operation   ratelimit.Operation
}

// limited returns the window and the limit of an operation of the caller; false when it has none.
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

// holding is the permits of one window that a batch has taken.
type holding struct {
	unused     int
	grants     []ratelimit.Decision // of the limiter
	exhausted  bool                 // the limiter granted less than requested
	retryAfter time.Duration        // of the latest grant
	err        error                // of the limiter
}

func newPermits(limiter Limiter, logger *slog.Logger, timeLeft time.Duration) *permits {
	return &permits{limiter: limiter, logger: logger, timeLeft: timeLeft, holding: map[window]*holding{}}
}

// reserve takes permits until n are available, as far as the limit allows. If the limiter fails, only the commands that
// need a permit fail.
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
	ctx, cancel := context.WithTimeout(ctx, p.timeLeft)
	defer cancel()
	grant, err := p.limiter.Take(ctx, w.integration, w.operation, limit, missing)
	p.timeLeft -= time.Since(start)
	if err != nil {
		p.logger.WarnContext(ctx, "creations or updates of novels refused: the limiter failed", slog.Any("error", err))
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
	if h.unused > 0 {
		h.unused--
		return nil
	}
	if h.err != nil {
		return h.err
	}
	return &RateLimitedError{Operation: w.operation, Limit: limit, RetryAfter: h.retryAfter}
}

// release releases the permits of a failed attempt.
func (p *permits) release(spent map[window]int) {
	for w, n := range spent {
		p.holding[w].unused += n
	}
}

// charge uses permits again that release has released: their attempt may be committed after all. It uses no more than
// are still unused.
func (p *permits) charge(spent map[window]int) {
	for w, n := range spent {
		p.holding[w].unused -= min(n, p.holding[w].unused)
	}
}

// returnUnused returns the permits that the batch did not use.
func (p *permits) returnUnused() {
	for w, h := range p.holding {
		for _, grant := range h.grants {
			n := min(h.unused, grant.Granted)
			if n == 0 {
				continue
			}
			// Not the batch's context: it may have ended, and the permits must be returned.
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			if err := p.limiter.Return(ctx, w.integration, w.operation, grant, n); err != nil {
				p.logger.WarnContext(ctx, "could not return permits", slog.Any("error", err))
			}
			cancel()
			h.unused -= n
		}
	}
}
