// Package thread decides what may happen to the discussion thread of a novel.
package thread

import (
	"github.com/google/uuid"

	"novelgate/events"
)

// Thread is the one canonical discussion of a novel. The zero Thread is not open yet.
type Thread struct {
	ID uuid.UUID
}

// Exists reports whether the thread was opened.
func (t Thread) Exists() bool { return t.ID != uuid.Nil }

// Open decides that a novel gets its thread; it returns no event when it has one.
func (t Thread) Open(novelID uuid.UUID) []events.Event {
	if t.Exists() {
		return nil
	}
	return []events.Event{events.ThreadOpened{NovelID: novelID}}
}
