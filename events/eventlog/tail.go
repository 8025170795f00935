package eventlog

import (
	"slices"
	"sync"
	"time"

	"novelgate/events"
)

const (
	tailBatches = 2                     // that a Tail keeps
	tailWait    = 50 * time.Millisecond // the longest that one subscription waits for what another one reads
)

// Tail is what the subscriptions of a process have read last, so that each event is read and decoded once for all of
// them: settled events never change, and nothing ever appears between two of them. Create it with NewTail.
type Tail struct {
	mu      sync.Mutex
	batches []Batch // without gaps, oldest first
	reading *reading
}

// reading is a poll under way.
type reading struct {
	start events.Position
	done  chan struct{}
}

// NewTail returns an empty Tail.
func NewTail() *Tail { return &Tail{} }

// after returns up to limit events behind a position if another subscription has read them, or is just reading them.
// Otherwise the caller polls, and calls finish when it is done.
func (t *Tail) after(position events.Position, limit int, closed <-chan struct{}) (found []events.Recorded, finish func()) {
	found, other, finish := t.look(position, limit)
	if other == nil {
		return found, finish
	}
	timer := time.NewTimer(tailWait)
	defer timer.Stop()
	select {
	case <-other:
	case <-timer.C:
	case <-closed:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.find(position, limit), func() {}
}

// look returns events, or a channel that is closed when they may have been read, or a function to call after reading them.
func (t *Tail) look(position events.Position, limit int) (found []events.Recorded, other <-chan struct{}, finish func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if found = t.find(position, limit); len(found) > 0 {
		return found, nil, func() {}
	}
	if t.reading != nil {
		if t.reading.start == position {
			return nil, t.reading.done, nil
		}
		return nil, nil, func() {} // somebody else is elsewhere in the log
	}
	mine := &reading{start: position, done: make(chan struct{})}
	t.reading = mine
	return nil, nil, sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.reading = nil
		close(mine.done)
	})
}

// find returns the events of one batch that follow a position.
func (t *Tail) find(position events.Position, limit int) []events.Recorded {
	for _, batch := range t.batches {
		if position.Compare(batch.Start) < 0 || position.Compare(batch.End()) >= 0 {
			continue
		}
		first, exact := slices.BinarySearchFunc(batch.Events, position, func(e events.Recorded, p events.Position) int { return e.Position.Compare(p) })
		if exact {
			first++
		}
		last := min(first+limit, len(batch.Events))
		return batch.Events[first:last:last]
	}
	return nil
}

// add keeps a batch that was read if it reaches further than those that are kept.
func (t *Tail) add(batch Batch) {
	if len(batch.Events) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.batches) > 0 {
		end := t.batches[len(t.batches)-1].End()
		if batch.End().Compare(end) <= 0 {
			return
		}
		if batch.Start != end {
			t.batches = nil
		}
	}
	t.batches = append(t.batches, batch)
	if excess := len(t.batches) - tailBatches; excess > 0 {
		t.batches = slices.Delete(t.batches, 0, excess)
	}
}
