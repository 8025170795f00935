package committer

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"novelgate/commands/ratelimit"
)

// TestLRU: the latest entries are there, unchanged, and the size is limited.
func TestLRU(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const limit = 4
		r := newLRU[int, int](limit)
		model, last := map[int]int{}, []int{} // all entries; the keys that must be there, the latest last
		touch := func(key int, stay bool) {
			if at := slices.Index(last, key); at >= 0 {
				last = slices.Delete(last, at, at+1)
			}
			if stay {
				last = append(last, key)
				last = last[max(0, len(last)-limit):]
			}
		}
		for range rapid.IntRange(0, 50).Draw(t, "steps") {
			key := rapid.IntRange(0, 9).Draw(t, "key")
			switch value, found := r.get(key); rapid.SampledFrom([]string{"put", "get", "drop"}).Draw(t, "step") {
			case "put":
				model[key] = len(model) + value + 1
				r.put(key, model[key])
				touch(key, true)
			case "get":
				if want, put := model[key]; found && (!put || value != want) || !found && slices.Contains(last, key) {
					t.Fatalf("%d: %d, %v, want %d, %v; last %v", key, value, found, want, put, last)
				}
				touch(key, found)
			case "drop":
				r.remove(key)
				delete(model, key)
				touch(key, false)
			}
			if n := len(r.young) + len(r.old); n > 2*limit {
				t.Fatalf("%d entries", n)
			}
		}
	})
}

// till grants everything and counts returned permits.
type till struct{ returned int }

func (*till) Take(_ context.Context, _ uuid.UUID, _ ratelimit.Operation, limit, n int) (ratelimit.Decision, error) {
	return ratelimit.Decision{Granted: n, Limit: limit}, nil
}

func (c *till) Return(_ context.Context, _ uuid.UUID, _ ratelimit.Operation, _ ratelimit.Decision, n int) error {
	c.returned += n
	return nil
}

// TestUnusedPermitsReturnOnce: unused permits of several grants are returned once in total.
func TestUnusedPermitsReturnOnce(t *testing.T) {
	t.Parallel()
	source, w := &till{}, window{uuid.New(), ratelimit.Novels}
	p := newPermits(source, slog.New(slog.DiscardHandler), time.Minute)
	p.reserve(t.Context(), w, 60, 3)
	if err := p.spend(t.Context(), w, 60); err != nil {
		t.Fatal(err)
	}
	p.reserve(t.Context(), w, 60, 6) // two are left, so it takes four more
	for range 5 {
		if err := p.spend(t.Context(), w, 60); err != nil {
			t.Fatal(err)
		}
	}
	if p.returnUnused(); source.returned != 1 {
		t.Errorf("%d of 7 permits came back of which 6 were spent", source.returned)
	}
}
