package eventlog

import (
	"slices"
	"sync"
	"time"

	"novelgate/events"
)

const (
	tailParts = 2                     // that a Tail keeps
	tailWait  = 50 * time.Millisecond // the longest that one subscription waits for what another one reads
)

// stretch is a part of the log as it was read: settled events of every kind of stream, without gaps, in log order.
type stretch struct {
	identity Identity        // of the log that it was read from
	start    events.Position // it holds what follows this position
	// without metadata; those that cannot be read, or that nobody asked for, without Event
	events []events.Recorded
	broken map[events.Position]*UndecodableError // why some cannot be read
	full   bool                                  // there may be more right behind it
}

// end is the position of the last event, or the start if there is none.
func (s *stretch) end() events.Position {
	if len(s.events) == 0 {
		return s.start
	}
	return s.events[len(s.events)-1].Position
}

func (s *stretch) setBroken(undecodable *UndecodableError) {
	if s.broken == nil {
		s.broken = map[events.Position]*UndecodableError{}
	}
	s.broken[undecodable.Recorded.Position] = undecodable
}

// sound returns what comes before the first event that cannot be read.
func (s *stretch) sound() stretch {
	for i := range s.events {
		if _, ok := s.broken[s.events[i].Position]; ok {
			return stretch{identity: s.identity, start: s.start, events: s.events[:i]}
		}
	}
	return *s
}

// after returns up to limit events behind a position in the stretch, all of which can be read.
func (s *stretch) after(position events.Position, limit int) stretch {
	first, exact := slices.BinarySearchFunc(s.events, position,
		func(e events.Recorded, p events.Position) int { return e.Position.Compare(p) })
	if exact {
		first++
	}
	last := min(first+limit, len(s.events))
	return stretch{
		identity: s.identity, start: position, events: s.events[first:last:last], full: s.full || last < len(s.events),
	}
}

// Tail is what the subscriptions of a process have read last, so that each event is read and decoded once for all of
// them: settled events never change, and nothing ever appears between two of them, while the log is the same one. Each
// poll finds out whether it is. Create it with NewTail.
type Tail struct {
	mu      sync.Mutex
	parts   []stretch // of one log, without gaps, oldest first
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
func (t *Tail) after(position events.Position, limit int, closed <-chan struct{}) (found stretch, finish func()) {
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

// look returns events, or a channel that is closed when they may have been read, or a function to call after reading
// them.
func (t *Tail) look(position events.Position, limit int) (found stretch, other <-chan struct{}, finish func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if found = t.find(position, limit); len(found.events) > 0 {
		return found, nil, func() {}
	}
	if t.reading != nil {
		if t.reading.start == position {
			return stretch{}, t.reading.done, nil
		}
		return stretch{}, nil, func() {} // somebody else is elsewhere in the log
	}
	mine := &reading{start: position, done: make(chan struct{})}
	t.reading = mine
	return stretch{}, nil, sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.reading = nil
		close(mine.done)
	})
}

// find returns the events of one part that follow a position.
func (t *Tail) find(position events.Position, limit int) stretch {
	for i := range t.parts {
		if part := &t.parts[i]; position.Compare(part.start) >= 0 && position.Compare(part.end()) < 0 {
			return part.after(position, limit)
		}
	}
	return stretch{}
}

// add keeps a stretch that was read if it reaches further than what is kept. What cannot be read may be mended, so it
// is not kept.
func (t *Tail) add(read stretch) {
	read = read.sound()
	if len(read.events) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.parts) > 0 {
		last := &t.parts[len(t.parts)-1]
		switch end := last.end(); {
		case read.identity != last.identity:
			t.parts = nil
		case read.end().Compare(end) <= 0:
			return
		case read.start != end:
			t.parts = nil
		}
	}
	t.parts = append(t.parts, read)
	if excess := len(t.parts) - tailParts; excess > 0 {
		t.parts = slices.Delete(t.parts, 0, excess)
	}
}

// forget drops all that is kept.
func (t *Tail) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.parts = nil
}
