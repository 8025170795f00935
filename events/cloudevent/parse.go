package cloudevent

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
)

// cloudEvent has the attributes that Parse reads. A nil pointer is an absent attribute.
type cloudEvent struct {
	ID            *string        `json:"id"`
	Source        *string        `json:"source"`
	Type          *string        `json:"type"`
	Time          *string        `json:"time"`
	StreamType    *string        `json:"streamtype"`
	StreamID      *uuid.UUID     `json:"streamid"`
	StreamVersion *int32         `json:"streamversion"`
	LogIndex      *string        `json:"logindex"`
	Actor         string         `json:"actor"`
	RequestID     string         `json:"requestid"`
	Correlation   string         `json:"correlation"`
	Causation     string         `json:"causation"`
	TraceParent   string         `json:"traceparent"`
	KeyID         uuid.UUID      `json:"keyid"`
	Batch         uuid.UUID      `json:"batch"`
	Data          jsontext.Value `json:"data"`
}

var errAttribute = errors.New("an attribute is missing")

// Parse is the inverse of Append for an event with a log index. The row has no position, salt and fingerprint, which a
// CloudEvent lacks, no personal data and no digest of it. Parse ignores the attribute personal and unknown attributes.
func Parse(text []byte) (row eventlog.Row, logIndex int64, err error) {
	var e cloudEvent
	if err := json.Unmarshal(text, &e); err != nil {
		return eventlog.Row{}, 0, fmt.Errorf("read a CloudEvent: %w", err)
	}
	if e.ID == nil || e.Source == nil || e.Type == nil || e.Time == nil || e.StreamType == nil || e.StreamID == nil ||
		e.StreamVersion == nil || e.LogIndex == nil || e.Data == nil {
		return eventlog.Row{}, 0, fmt.Errorf("read a CloudEvent: %w", errAttribute)
	}
	at, timeErr := time.Parse(timeFormat, *e.Time)
	logIndex, indexErr := strconv.ParseInt(*e.LogIndex, 10, 64)
	if err := errors.Join(timeErr, indexErr); err != nil {
		return eventlog.Row{}, 0, fmt.Errorf("read a CloudEvent: %w", err)
	}
	if e.Correlation == e.RequestID {
		e.Correlation = "" // see events.Metadata
	}
	return eventlog.Row{
		StreamType: *e.StreamType, StreamID: *e.StreamID, StreamVersion: int(*e.StreamVersion),
		ID: *e.ID, Source: *e.Source, Type: *e.Type, Data: e.Data, RecordedAt: at,
		Metadata: events.Metadata{
			Actor: e.Actor, KeyID: e.KeyID, RequestID: e.RequestID, Correlation: e.Correlation, Causation: e.Causation,
			Batch: e.Batch, TraceParent: e.TraceParent,
		},
	}, logIndex, nil
}
