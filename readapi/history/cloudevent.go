package history

import (
	"errors"
	"time"

	"novelgate/events/cloudevent"
)

// MediaType is the media type of a single event.
const MediaType = cloudevent.MediaType

// AppendCloudEvent appends an event to a buffer as a CloudEvent with all that is stored of it; see cloudevent.Append.
func AppendCloudEvent(buffer []byte, e *Event) ([]byte, error) {
	return cloudevent.Append(buffer, &e.Row, cloudevent.Attributes{
		LogIndex: e.LogIndex, Cursor: e.Cursor().String(), Personal: e.Personal,
	})
}

// ParseTime parses a time in RFC 3339 form.
func ParseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		// not the error of Parse, which names Go's layout
		return time.Time{}, errors.New("must be a time with its zone, such as 2026-01-31T12:00:00Z")
	}
	return t, nil
}
