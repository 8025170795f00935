package committer

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/commands/ratelimit"
)

// till grants everything and counts what comes back.
type till struct{ returned int }

func (*till) Take(_ context.Context, _ uuid.UUID, _ ratelimit.Operation, limit, n int) (ratelimit.Decision, error) {
	return ratelimit.Decision{Granted: n, Limit: limit}, nil
}

func (c *till) Return(_ context.Context, _ uuid.UUID, _ ratelimit.Operation, _ ratelimit.Decision, n int) error {
	c.returned += n
	return nil
}

// TestUnusedPermitsReturnOnce: what several grants have left over is given back once, and not once for each of them.
func TestUnusedPermitsReturnOnce(t *testing.T) {
	t.Parallel()
	source, w := &till{}, window{uuid.New(), ratelimit.Novels}
	p := newPermits(source, slog.New(slog.DiscardHandler), time.Minute)
	p.reserve(t.Context(), w, 60, 3)
	if err := p.spend(t.Context(), w, 60); err != nil {
		t.Fatal(err)
	}
	p.reserve(t.Context(), w, 60, 6) // two are left, so four more
	for range 5 {
		if err := p.spend(t.Context(), w, 60); err != nil {
			t.Fatal(err)
		}
	}
	if p.returnUnused(); source.returned != 1 {
		t.Errorf("%d of 7 permits came back of which 6 were spent", source.returned)
	}
}
