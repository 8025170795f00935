package blackbox

import (
	"io"
	"sync"
)

// tail is an io.Writer that keeps the newest bytes written to it. It is safe for concurrent use.
type tail struct {
	mu   sync.Mutex
	max  int
	data []byte
}

// Write never fails.
func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.data = append(w.data, p...)
	if extra := len(w.data) - w.max; extra > 0 {
		w.data = append(w.data[:0], w.data[extra:]...)
	}
	return len(p), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.data)
}

// serialized lets several goroutines write to one io.Writer.
type serialized struct {
	mu sync.Mutex
	to io.Writer
}

// Write is that of the writer behind it, one at a time.
func (w *serialized) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p) //nolint:wrapcheck // it is passed on as it is
}
