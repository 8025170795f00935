package staff

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/events/eventlog"
)

// latestEvents is how many of a novel's events its history has: each update by a partner is one.
const latestEvents = 1000

// historyBytes is from which size on, as JSON, a history takes no older event.
const historyBytes = 512 << 10

// NovelHistory returns what happened to a novel lately, oldest first: its latest thousand events, fewer if they are
// large.
func (s *Staff) NovelHistory(ctx context.Context, id uuid.UUID) ([]HistoryEntry, error) {
	recorded, err := eventlog.ReadStreamEnd(ctx, s.Pool, events.NovelStream, id, latestEvents)
	if err != nil {
		return nil, err
	}
	size, first := 0, len(recorded)
	for ; first > 0 && size < historyBytes; first-- {
		data, err := json.Marshal(recorded[first-1].Event)
		if err != nil {
			return nil, fmt.Errorf("measure event of novel %s: %w", id, err)
		}
		size += len(data)
	}
	return historyOf(recorded[first:]), nil
}
