package e2e_test

import (
	"sync"
	"testing"

	"novelgate/internal/testdb"
)

// lease is the service that the tests of this process share. The first test that asks starts it and the last one that
// leaves stops it, so that nothing outlives the tests, also when only one of them is run.
var lease struct {
	mu      sync.Mutex
	users   int
	life    *lifetime
	service *Service
}

// Shared returns a service on a database of its own, shared with all other tests that call Shared. Isolation comes from
// an integration per test, titles that are used once, and limits high enough to stay out of the way.
func Shared(t testing.TB) *Service {
	t.Helper()
	lease.mu.Lock()
	defer lease.mu.Unlock()
	if lease.users == 0 {
		lease.life = &lifetime{TB: t}
		defer func() {
			if lease.service == nil { // Start has failed and is unwinding
				lease.life.end(t)
			}
		}()
		lease.service = Start(lease.life, testdb.New(lease.life))
	}
	lease.users++
	service := lease.service
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the newest lines of the shared service's log:\n%s", service.said())
		}
		leave(t)
	})
	return service
}

func leave(t testing.TB) {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	lease.users--
	if lease.users == 0 {
		lease.service = nil
		lease.life.end(t)
	}
}

// lifetime is a testing.TB whose cleanups run when end is called, not when the test ends that began it.
type lifetime struct {
	testing.TB
	cleanups []func()
}

// Cleanup registers f to run at end, last one first.
func (l *lifetime) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }

// end runs the cleanups on behalf of t.
func (l *lifetime) end(t testing.TB) {
	l.TB = t
	for len(l.cleanups) > 0 {
		last := len(l.cleanups) - 1
		f := l.cleanups[last]
		l.cleanups = l.cleanups[:last]
		f()
	}
}
