// Package thread decides on the opening of a novel's discussion thread.
package thread

import (
	"github.com/google/uuid"

	"novelgate/events"
)

// Thread is the one discussion of a novel. The zero Thread is not open yet.
type Thread struct {
	ID uuid.UUID
}

// Exists reports whether the thread was opened.
func (t Thread) Exists() bool { return t.ID != uuid.Nil }

// Open opens the thread of a novel. It returns no event when the thread is open.
func (t Thread) Open(novelID uuid.UUID) []events.Event {
	if t.Exists() {
		return nil
	}
	return []events.Event{events.ThreadOpened{NovelID: novelID}}
}
