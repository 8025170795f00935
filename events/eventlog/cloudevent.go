package eventlog

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

// CloudEventType is the media type of a single event (CloudEvents 1.0, JSON format, structured mode).
const CloudEventType = "application/cloudevents+json"

// timeFormat has the precision of the database.
const timeFormat = "2006-01-02T15:04:05.999999Z07:00"

// AppendCloudEvent appends an event to a buffer as a CloudEvent 1.0 in JSON, on one line. Its data are the bytes in the
// log, with spaces for line ends. cursor is where a reader of the history continues, and personal the stored JSON of
// the personal data; a reader who gets neither passes nothing.
//
// The attribute personal is a string, because extension attributes cannot be objects. The log index is a string too,
// because integers of CloudEvents have 32 bits.
func AppendCloudEvent(buffer []byte, e *Row, cursor string, personal []byte) ([]byte, error) {
	w := objectWriter{buffer: append(buffer, '{')}
	w.text("specversion", "1.0")
	w.text("id", e.ID)
	w.text("source", e.Source)
	w.text("type", e.Type)
	w.text("subject", e.StreamType+"/"+e.StreamID.String())
	w.text("time", e.RecordedAt.UTC().Format(timeFormat))
	w.text("datacontenttype", "application/json")
	w.text("streamtype", e.StreamType)
	w.text("streamid", e.StreamID.String())
	w.raw("streamversion", strconv.AppendInt(nil, int64(e.StreamVersion), 10))
	w.text("logindex", strconv.FormatInt(e.LogIndex, 10))
	for _, attribute := range []struct{ name, value string }{
		{"cursor", cursor},
		{"actor", e.Metadata.Actor},
		{"requestid", e.Metadata.RequestID},
		// the same for all events of one operation
		{"correlation", cmp.Or(e.Metadata.Correlation, e.Metadata.RequestID)},
		{"causation", e.Metadata.Causation},
		{"traceparent", e.Metadata.TraceParent},
		{"personal", string(personal)},
	} {
		if attribute.value != "" { // CloudEvents has no empty attributes
			w.text(attribute.name, attribute.value)
		}
	}
	if e.Metadata.KeyID != uuid.Nil {
		w.text("keyid", e.Metadata.KeyID.String())
	}
	if e.Metadata.Batch != uuid.Nil {
		w.text("batch", e.Metadata.Batch.String())
	}
	w.raw("data", oneLine(e.Data))
	if w.err != nil {
		return nil, fmt.Errorf("render event %d: %w", e.LogIndex, w.err)
	}
	return append(w.buffer, '}'), nil
}

// oneLine replaces the line ends of a JSON text by spaces. JSON has line ends only between tokens. The service stores
// none, but others may have appended the event.
func oneLine(text []byte) []byte {
	if bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0 {
		return text
	}
	return bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, text)
}

// objectWriter writes the members of a JSON object.
type objectWriter struct {
	buffer []byte
	err    error
}

func (w *objectWriter) name(name string) {
	if w.buffer[len(w.buffer)-1] != '{' {
		w.buffer = append(w.buffer, ',')
	}
	w.buffer = append(append(append(w.buffer, '"'), name...), `":`...)
}

func (w *objectWriter) text(name, value string) {
	w.name(name)
	quoted, err := jsontext.AppendQuote(w.buffer, value)
	if err != nil {
		w.err = err
		return
	}
	w.buffer = quoted
}

func (w *objectWriter) raw(name string, value []byte) {
	w.name(name)
	w.buffer = append(w.buffer, value...)
}
