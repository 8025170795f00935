package audit

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/events/ledger"
)

var errEncoding = errors.New("is not valid UTF-8")

// timeFormat has microseconds, the precision of the database.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// appendLine appends an event as one line of JSON.
func appendLine(dst []byte, e *ledger.Event) ([]byte, error) {
	dst = append(dst, '{')
	if e.LogIndex != ledger.NoLogIndex {
		dst = append(strconv.AppendInt(append(dst, `"logIndex":`...), e.LogIndex, 10), ',')
	}
	var failed error
	dst = appendText(dst, `"id":`, e.ID, &failed)
	dst = appendText(dst, `,"source":`, e.Source, &failed)
	dst = appendText(dst, `,"type":`, e.Type, &failed)
	dst = appendText(dst, `,"streamType":`, e.StreamType, &failed)
	dst = append(dst, `,"streamId":"`...)
	dst = append(dst, e.StreamID.String()...)
	dst = strconv.AppendInt(append(dst, `","streamVersion":`...), int64(e.StreamVersion), 10)
	dst = e.RecordedAt.UTC().AppendFormat(append(dst, `,"recordedAt":"`...), timeFormat)
	dst = appendText(dst, `","data":`, e.Data, &failed)
	if e.Personal != nil {
		dst = appendText(dst, `,"personal":`, e.Personal, &failed)
	}
	if e.Salt.Valid {
		dst = append(dst, `,"salt":"`...)
		dst = append(dst, e.Salt.UUID.String()...)
		dst = append(dst, '"')
	}
	metadata, err := events.EncodeMetadata(&e.Metadata)
	if err != nil {
		failed = fmt.Errorf("metadata: %w", err)
	}
	dst = appendText(dst, `,"metadata":`, metadata, &failed)
	return append(dst, "}\n"...), failed
}

// appendText appends a member with a text. It sets failed for one that is not UTF-8.
func appendText[T string | []byte](dst []byte, name string, value T, failed *error) []byte {
	dst, err := jsontext.AppendQuote(append(dst, name...), value)
	if err != nil {
		*failed = fmt.Errorf("%s %w", name, errEncoding)
	}
	return dst
}

// line is a line of a bundle. A nil pointer is an absent member.
type line struct {
	LogIndex      *int64     `json:"logIndex"`
	ID            *string    `json:"id"`
	Source        *string    `json:"source"`
	Type          *string    `json:"type"`
	StreamType    *string    `json:"streamType"`
	StreamID      *uuid.UUID `json:"streamId"`
	StreamVersion *int32     `json:"streamVersion"`
	RecordedAt    *string    `json:"recordedAt"`
	Data          *string    `json:"data"`
	Personal      *string    `json:"personal"`
	Salt          *uuid.UUID `json:"salt"`
	Metadata      *string    `json:"metadata"`
}

var (
	errMember = errors.New("a member is missing")
	errCut    = errors.New("the last line has no end")
)

func broken(err error) ledger.Event { return ledger.Event{LogIndex: ledger.NoLogIndex, Broken: err} }

// parseLine parses a line. It returns a broken event for a line that is not an event.
func parseLine(text []byte) ledger.Event {
	var l line
	if err := json.Unmarshal(text, &l, json.RejectUnknownMembers(true)); err != nil {
		return broken(err)
	}
	if l.ID == nil || l.Source == nil || l.Type == nil || l.StreamType == nil || l.StreamID == nil ||
		l.StreamVersion == nil || l.RecordedAt == nil || l.Data == nil || l.Metadata == nil {
		return broken(errMember)
	}
	at, err := time.Parse(timeFormat, *l.RecordedAt)
	if err != nil {
		return broken(err)
	}
	metadata, err := events.DecodeMetadata([]byte(*l.Metadata))
	if err != nil {
		return broken(err)
	}
	e := ledger.Event{LogIndex: ledger.NoLogIndex, Row: eventlog.Row{
		ID: *l.ID, Source: *l.Source, Type: *l.Type, StreamType: *l.StreamType, StreamID: *l.StreamID,
		StreamVersion: int(*l.StreamVersion), RecordedAt: at, Data: []byte(*l.Data), Metadata: metadata,
	}}
	if l.LogIndex != nil && *l.LogIndex >= 0 {
		e.LogIndex = *l.LogIndex
	}
	if l.Personal != nil {
		e.Personal = []byte(*l.Personal)
	}
	if l.Salt != nil {
		e.Salt = uuid.NullUUID{UUID: *l.Salt, Valid: true}
	}
	return e
}
