package httpkit

import (
	"io"
	"sync"

	"github.com/google/uuid"

	"novelgate/internal/problem"
)

const (
	// bodyBudget is the memory for the bodies of all requests, in addition to guaranteedBodies of each caller. A caller
	// may take a quarter (1/bodyShare) of the bytes that are free.
	bodyBudget = 64 << 20
	bodyShare  = 4
	// guaranteedBodies is the number of bytes that each caller may always take.
	guaranteedBodies = 128 << 10
	// minReserved is the least reservation of a body that is arriving. It covers the goroutine, buffers and header of the
	// connection.
	minReserved = 16 << 10
	// firstBuffer is the size of the buffer at first. A full buffer is doubled.
	firstBuffer = 4 << 10
)

// Refusals of a body. The request had no effect.
var (
	errBodyShare = problem.RateLimited(RetryAfter).WithDetail("The bodies of the current requests of this integration " +
		"take too much memory. Repeat the request after the time in Retry-After.")
	errBodyBudget = problem.Unavailable(RetryAfter).WithDetail("Too many requests are in progress. Repeat the request " +
		"after the time in Retry-After.")
)

// bodies counts the bytes of request bodies by caller.
type bodies struct {
	mu   sync.Mutex
	all  int
	held map[uuid.UUID]int
}

// take reserves bytes for a caller, uuid.Nil for staff. It fails with errBodyShare if the caller takes too much even
// without other callers, and with errBodyBudget if the others leave too little.
func (b *bodies) take(caller uuid.UUID, bytes int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	held := b.held[caller] + bytes
	switch {
	case held <= guaranteedBodies:
	case caller != uuid.Nil && bodyShare*held > bodyBudget-held:
		return errBodyShare
	case bodyShare*held > bodyBudget-b.all:
		return errBodyBudget
	}
	if b.held == nil {
		b.held = map[uuid.UUID]int{}
	}
	b.held[caller] = held
	b.all += bytes
	return nil
}

// release returns reserved bytes.
func (b *bodies) release(caller uuid.UUID, bytes int) {
	if bytes == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all -= bytes
	if b.held[caller] -= bytes; b.held[caller] == 0 {
		delete(b.held, caller)
	}
}

// read reads up to most bytes, or to the end. It leaves the capacity of the body reserved; after an error, nothing.
func (b *bodies) read(caller uuid.UUID, from io.Reader, most int) (body []byte, err error) {
	reserved := minReserved
	if err := b.take(caller, reserved); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			body = nil
		}
		b.release(caller, reserved-cap(body))
	}()
	for body = make([]byte, 0, min(firstBuffer, most)); len(body) < most; {
		if len(body) == cap(body) {
			size := min(2*cap(body), most)
			if more := size - reserved; more > 0 {
				if err := b.take(caller, more); err != nil {
					return body, err
				}
				reserved = size
			}
			body = append(make([]byte, 0, size), body...)
		}
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err == io.EOF {
			break
		}
		if err != nil {
			return body, err // the caller distinguishes the errors
		}
	}
	return body, nil
}
