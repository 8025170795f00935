package load

import (
	"bufio"
	"math/rand/v2"
	"time"
)

// ReadResponse reads one answer for the tests.
func ReadResponse(r *bufio.Reader, buffer []byte) (status int, body string, last bool, err error) {
	answer, err := readResponse(r, buffer)
	return answer.status, string(answer.body), answer.last, err
}

// Compose returns one request for the tests: a reply when parent is not 0.
func Compose(run uint16, parent uint64, now time.Time) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	c := newComposer("host:80", "secret", []string{Content(rng)}, rng)
	return c.compose(newOrigin(run, 2, 3), Title(7), parent != 0, origin(parent), now)
}
