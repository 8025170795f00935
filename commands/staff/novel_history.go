package staff

import (
	"context"
	"time"

	"github.com/google/uuid"

	"novelgate/events/eventlog"
)

// HistoryEntry is one event of a novel.
type HistoryEntry struct {
	Version    int       `json:"version"`
	Type       string    `json:"type"`
	Actor      string    `json:"actor"`
	RecordedAt time.Time `json:"recordedAt"`
	Data       any       `json:"data"`
}

// NovelHistory returns what happened to a novel, oldest first.
func (s *Staff) NovelHistory(ctx context.Context, id uuid.UUID) ([]HistoryEntry, error) {
	recorded, err := eventlog.ReadStream(ctx, s.Pool, id, 0)
	if err != nil {
		return nil, err
	}
	history := make([]HistoryEntry, len(recorded))
	for i, r := range recorded {
		history[i] = HistoryEntry{r.StreamVersion, r.Event.Type(), r.Metadata.Actor, r.RecordedAt, r.Event}
	}
	return history, nil
}
