package history

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Filter selects the events that match every set field. The zero Filter selects all.
type Filter struct {
	After       *int64        // after the event with this log index
	Before      *int64        // before the event with this log index
	Stream      uuid.NullUUID // of this aggregate
	StreamType  string        // of this stream type
	Type        string        // of this type, such as "novel.created.v1"
	Integration uuid.NullUUID // that this integration caused, in its own stream, and about its authors
	Novel       uuid.NullUUID // of this novel, of its thread and of its comments
	From        *time.Time    // recorded at this time or later
	To          *time.Time    // recorded before this time
	Correlation string        // of this operation
}

// query collects the parameters of a statement.
type query struct{ args []any }

// arg adds a parameter and returns its placeholder.
func (q *query) arg(value any) string {
	q.args = append(q.args, value)
	return "$" + strconv.Itoa(len(q.args))
}

// rowConditions returns the conditions that no index supports, as SQL on an event e; "" if there are none.
func (f *Filter) rowConditions(q *query) string {
	var conditions []string
	add := func(format string, values ...any) {
		places := make([]any, len(values))
		for i, value := range values {
			places[i] = q.arg(value)
		}
		conditions = append(conditions, fmt.Sprintf(format, places...))
	}
	if f.StreamType != "" {
		add("e.stream_type = %s::text", f.StreamType)
	}
	if f.Type != "" {
		add("e.event_type = %s::text", f.Type)
	}
	if f.From != nil {
		add("e.recorded_at >= %s::timestamptz", *f.From)
	}
	if f.To != nil {
		add("e.recorded_at < %s::timestamptz", *f.To)
	}
	if f.Correlation != "" {
		add("coalesce(e.correlation, e.request_id) = %s::text", f.Correlation)
	}
	if f.Integration.Valid {
		id := f.Integration.UUID
		add("(e.stream_id = %s::uuid OR e.integration_id = %[1]s::uuid OR e.data->>'integrationId' = %s::text)",
			id, id.String())
	}
	if f.Novel.Valid {
		// The first event of a thread or of a comment names the novel; later ones may not. Not EXISTS, because PostgreSQL
		// would build a table of all first events.
		id := f.Novel.UUID
		add(`(e.stream_id = %s::uuid OR e.stream_type IN ('thread', 'post') AND CASE WHEN e.stream_version = 1
    THEN e.data->>'novelId' = %s::text
    ELSE (SELECT f.data->>'novelId' FROM events f WHERE f.stream_id = e.stream_id AND f.stream_version = 1) = %[2]s::text END)`,
			id, id.String())
	}
	return strings.Join(conditions, "\n  AND ")
}
