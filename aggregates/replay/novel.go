// Package replay builds past states of aggregates from events, as JSON for people. The aggregates apply the events.
package replay

import (
	"time"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/events"
)

// Trace says which events a state is built from.
type Trace struct {
	Version   int       `json:"version"` // of the stream; 0: it did not exist yet
	ChangedAt time.Time `json:"changedAt,omitzero"`
	ChangedBy string    `json:"changedBy,omitempty"`
}

func (t *Trace) follow(recorded *events.Recorded) {
	t.Version, t.ChangedAt, t.ChangedBy = recorded.StreamVersion, recorded.RecordedAt.UTC(), recorded.Metadata.Actor
}

// Exists reports whether the aggregate existed.
func (t Trace) Exists() bool { return t.Version > 0 }

// Novel is the past state of a novel.
type Novel struct {
	NovelID uuid.UUID   `json:"novelId"`
	Title   string      `json:"novel"`
	Slug    string      `json:"slug"`
	State   novel.State `json:"state"`
	Owner   string      `json:"owner"` // an integration's id, or "host"
	novel.Details
	Trace
}

// host is the owner of novels that belong to no integration.
const host = "host"

// NovelOf folds the events of a novel's stream, oldest first.
func NovelOf(id uuid.UUID, history []events.Recorded) Novel {
	n := novel.Novel{ID: id}
	var trace Trace
	for i := range history {
		n = n.Apply(history[i].Event)
		trace.follow(&history[i])
	}
	shown := Novel{NovelID: id, Title: n.Title, Slug: n.Slug, State: n.State, Details: n.Details, Trace: trace}
	switch {
	case n.OwnerID != nil:
		shown.Owner = n.OwnerID.String()
	case trace.Exists():
		shown.Owner = host
	}
	return shown
}
