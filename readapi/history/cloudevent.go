package history

import "novelgate/events/cloudevent"

// MediaType is the media type of a single event.
const MediaType = cloudevent.MediaType

// AppendCloudEvent appends an event to a buffer as a CloudEvent with its log index, cursor and personal data, unless
// erased; see cloudevent.Append.
func AppendCloudEvent(buffer []byte, e *Event) ([]byte, error) {
	return cloudevent.Append(buffer, &e.Row, cloudevent.Attributes{
		LogIndex: e.LogIndex, Cursor: e.Cursor().String(), Personal: e.Personal,
	})
}
