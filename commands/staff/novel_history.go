package staff

import (
	"context"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/events/eventlog"
)

// latestEvents is how many of a novel's events its history has: each update by a partner is one.
const latestEvents = 1000

// NovelHistory returns what happened to a novel lately, oldest first: its latest thousand events.
func (s *Staff) NovelHistory(ctx context.Context, id uuid.UUID) ([]HistoryEntry, error) {
	recorded, err := eventlog.ReadStreamEnd(ctx, s.Pool, events.NovelStream, id, latestEvents)
	if err != nil {
		return nil, err
	}
	return historyOf(recorded), nil
}
