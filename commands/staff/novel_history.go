package staff

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/events/eventlog"
)

// latestEvents limits the history of a novel: each update by a partner is an event.
const latestEvents = 1000

// historyBytes is the size as JSON at which a history takes no older events.
const historyBytes = 512 << 10

// NovelHistory returns the latest thousand events of a novel, oldest first, fewer if they are large.
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
