package auth

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"
)

// Permits of the semaphore of a caller. A query, which occupies a database connection, and an open stream take as much
// as sixteen commands, which share one. Twelve of them leave the rest to commands.
const (
	callerPermits = 256
	queryPermits  = 16
	maxQueries    = 12
)

// refusalTime is how long a refused request keeps its permits after its answer. A client that repeats refused requests
// without a pause would otherwise take the processors from all others; so it is left with 256 a second.
const refusalTime = time.Second

// semaphores has one for each caller, so that a caller who floods slows down only itself. Requests wait in order of
// arrival, before their bodies are read: they hold little but their connections, whose number is limited.
type semaphores struct {
	mu       sync.Mutex
	ofCaller map[uuid.UUID]*callerSemaphore
}

type callerSemaphore struct {
	permits, queries *semaphore.Weighted
	users            int // requests that hold permits or wait
}

// acquire waits for the permits of a command or a query of a caller until ctx ends. Call release also after an error;
// it returns the permits after a time.
func (s *semaphores) acquire(
	ctx context.Context, caller uuid.UUID, isQuery bool,
) (release func(after time.Duration), err error) {
	s.mu.Lock()
	own := s.ofCaller[caller]
	if own == nil {
		if s.ofCaller == nil {
			s.ofCaller = map[uuid.UUID]*callerSemaphore{}
		}
		own = &callerSemaphore{
			permits: semaphore.NewWeighted(callerPermits), queries: semaphore.NewWeighted(maxQueries),
		}
		s.ofCaller[caller] = own
	}
	own.users++
	s.mu.Unlock()
	permits, queries := int64(1), int64(0)
	if isQuery {
		permits, queries = queryPermits, 1
		if err = own.queries.Acquire(ctx, 1); err != nil {
			queries = 0
		}
	}
	if err == nil && !own.permits.TryAcquire(permits) {
		err = own.permits.Acquire(ctx, permits)
	}
	if err != nil {
		permits = 0
	}
	end := func() {
		own.permits.Release(permits)
		own.queries.Release(queries)
		s.mu.Lock()
		defer s.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(s.ofCaller, caller)
		}
	}
	return func(after time.Duration) {
		if after == 0 || permits == 0 {
			end()
			return
		}
		time.AfterFunc(after, end)
	}, err
}
