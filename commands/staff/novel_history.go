package staff

import (
	"context"

	"github.com/google/uuid"

	"novelgate/events/eventlog"
)

// NovelHistory returns what happened to a novel, oldest first.
func (s *Staff) NovelHistory(ctx context.Context, id uuid.UUID) ([]HistoryEntry, error) {
	recorded, err := eventlog.ReadStream(ctx, s.Pool, id, 0)
	if err != nil {
		return nil, err
	}
	return historyOf(recorded), nil
}
