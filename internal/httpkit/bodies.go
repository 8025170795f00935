package httpkit

import (
	"io"
	"sync"

	"github.com/google/uuid"

	"novelgate/internal/problem"
)

const (
	// bodyBudget limits the bytes that bodies of all requests take, besides ownBodies of each caller. The more is taken,
	// the less a caller may take: a quarter of the free bytes.
	bodyBudget = 64 << 20
	bodyShare  = 4
	// ownBodies is the number of bytes that each caller may always take.
	ownBodies = 128 << 10
	// awaitedBody is the minimum that a body counts for until it has arrived: goroutine, buffers and header of its
	// connection.
	awaitedBody = 16 << 10
	// firstPiece is the memory that a body gets before any of it has arrived. The buffer grows with the bytes that have
	// arrived, to twice their size.
	firstPiece = 4 << 10
)

// Refusals of a body. The request had no effect.
var (
	errBodyShare = problem.RateLimited(RetryAfter).WithDetail("Too many requests of this integration whose bodies are " +
		"large, or are still to arrive, are under way. Repeat the request after the time in Retry-After.")
	errBodies = problem.Unavailable(RetryAfter).WithDetail("Too many requests are under way. Repeat the request after " +
		"the time in Retry-After.")
)

// bodies counts the bytes of request bodies by caller.
type bodies struct {
	mu   sync.Mutex
	all  int
	held map[uuid.UUID]int
}

// take reserves bytes for a caller, uuid.Nil for staff. The error says whether the caller takes too much, or others
// leave too little.
func (b *bodies) take(caller uuid.UUID, bytes int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	held := b.held[caller] + bytes
	switch {
	case held <= ownBodies:
	case caller != uuid.Nil && bodyShare*held > bodyBudget-held:
		return errBodyShare
	case bodyShare*held > bodyBudget-b.all:
		return errBodies
	}
	if b.held == nil {
		b.held = map[uuid.UUID]int{}
	}
	b.held[caller] = held
	b.all += bytes
	return nil
}

// release returns bytes.
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

// read reads up to most bytes, or to the end. It returns with the capacity of the body reserved; after an error,
// nothing is reserved.
func (b *bodies) read(caller uuid.UUID, from io.Reader, most int) (body []byte, err error) {
	reserved := awaitedBody
	if err := b.take(caller, reserved); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			body = nil
		}
		b.release(caller, reserved-cap(body))
	}()
	for body = make([]byte, 0, min(firstPiece, most)); len(body) < most; {
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
			return body, err //nolint:wrapcheck // the caller distinguishes the errors
		}
	}
	return body, nil
}
