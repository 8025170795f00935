package staff

import (
	"time"

	"novelgate/events"
)

// HistoryEntry is one event of a novel, a post or an author.
type HistoryEntry struct {
	Version    int       `json:"version"`
	Type       string    `json:"type"`
	Actor      string    `json:"actor"`
	RecordedAt time.Time `json:"recordedAt"`
	Data       any       `json:"data"`
	Personal   any       `json:"personal,omitzero"` // personal data; absent after erasure
}

func historyOf(recorded []events.Recorded) []HistoryEntry {
	history := make([]HistoryEntry, len(recorded))
	for i, r := range recorded {
		history[i] = HistoryEntry{
			r.StreamVersion, r.Event.Type(), r.Metadata.Actor, r.RecordedAt, r.Event, events.Personal(r.Event),
		}
	}
	return history
}
