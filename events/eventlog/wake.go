package eventlog

import (
	"sync"

	"github.com/google/uuid"
)

// Wake tells the subscriptions of this process that the log may have grown. It carries no data: who is woken polls.
type Wake struct {
	id      string // tells this process's notifications from those of others
	mu      sync.Mutex
	readers map[chan struct{}]bool // value: is only interested in commits of this process
}

// NewWake returns a Wake without subscriptions.
func NewWake() *Wake {
	return &Wake{id: uuid.NewString(), readers: map[chan struct{}]bool{}}
}

// Signal says that this process has committed an append. It never blocks; signals that nobody has taken yet
// collapse into one.
func (w *Wake) Signal() { w.broadcast(true) }

// signalRemote says that another process has, or may have, committed an append.
func (w *Wake) signalRemote() { w.broadcast(false) }

func (w *Wake) broadcast(local bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for reader, localOnly := range w.readers {
		if localOnly && !local {
			continue
		}
		select {
		case reader <- struct{}{}:
		default:
		}
	}
}

// Signals returns a channel that receives the signals of this process and of others, at most one ahead, and a function
// that ends this. A nil Wake never signals.
func (w *Wake) Signals() (signals <-chan struct{}, stop func()) {
	if w == nil {
		return nil, func() {}
	}
	return w.register(false)
}

// register returns a channel that receives signals, and a function that ends this.
func (w *Wake) register(localOnly bool) (signals <-chan struct{}, stop func()) {
	reader := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readers[reader] = localOnly
	return reader, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.readers, reader)
	}
}
