package e2e_test

import (
	"bytes"
	"sync"
)

// Capture is an io.Writer that keeps what is written to it, the newest Max bytes of it if that is not 0. It is safe for
// concurrent use.
type Capture struct {
	Max  int
	mu   sync.Mutex
	data bytes.Buffer
}

// Write never fails.
func (c *Capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.data.Write(p)
	if c.Max > 0 {
		c.data.Next(max(0, c.data.Len()-c.Max))
	}
	return n, err
}

func (c *Capture) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.data.String()
}
