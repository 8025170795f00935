package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/events/ledger"
)

// Event is an event in a bundle.
type Event struct {
	ledger.Event
	// Broken is the error of an unreadable line of a bundle; then all other fields are empty.
	Broken error
}

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
	text := func(name string, value []byte) {
		var err error
		if dst, err = jsontext.AppendQuote(append(dst, name...), value); err != nil {
			failed = fmt.Errorf("%s %w", name, errEncoding)
		}
	}
	for _, short := range []struct{ name, value string }{
		{`"id":`, e.ID}, {`,"source":`, e.Source}, {`,"type":`, e.Type}, {`,"streamType":`, e.StreamType},
	} {
		var err error
		if dst, err = jsontext.AppendQuote(append(dst, short.name...), short.value); err != nil {
			failed = fmt.Errorf("%s %w", short.name, errEncoding)
		}
	}
	dst = append(dst, `,"streamId":"`...)
	dst = append(dst, e.StreamID.String()...)
	dst = strconv.AppendInt(append(dst, `","streamVersion":`...), int64(e.StreamVersion), 10)
	dst = e.RecordedAt.UTC().AppendFormat(append(dst, `,"recordedAt":"`...), timeFormat)
	text(`","data":`, e.Data)
	if e.Personal != nil {
		text(`,"personal":`, e.Personal)
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
	text(`,"metadata":`, metadata)
	return append(dst, "}\n"...), failed
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

var errMember = errors.New("a member is missing")

func broken(err error) Event {
	return Event{Event: ledger.Event{LogIndex: ledger.NoLogIndex}, Broken: err}
}

// parseLine parses a line. It returns a broken event for a line that is not an event.
func parseLine(text []byte) Event {
	var l line
	if err := json.Unmarshal(text, &l, json.RejectUnknownMembers(true)); err != nil {
		return broken(err)
	}
	if l.ID == nil || l.Source == nil || l.Type == nil || l.StreamType == nil || l.StreamID == nil ||
		l.StreamVersion == nil ||
		l.RecordedAt == nil || l.Data == nil || l.Metadata == nil {
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
	e := Event{Event: ledger.Event{LogIndex: ledger.NoLogIndex, Row: eventlog.Row{
		ID: *l.ID, Source: *l.Source, Type: *l.Type, StreamType: *l.StreamType, StreamID: *l.StreamID,
		StreamVersion: int(*l.StreamVersion), RecordedAt: at, Data: []byte(*l.Data), Metadata: metadata,
	}}}
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

// Dir is a bundle on disk.
type Dir struct {
	Path     string
	Manifest Manifest
}

// OpenDir opens a bundle with a completed export.
func OpenDir(path string) (Dir, error) {
	m, err := ReadManifest(path)
	if err != nil {
		return Dir{}, err
	}
	if !m.Complete {
		return Dir{}, fmt.Errorf("%w: the export to %s has not ended; the same command goes on", ErrNoBundle, path)
	}
	return Dir{Path: path, Manifest: m}, nil
}

// File reads a file by its name inside the bundle. It fails with ledger.ErrNotFound.
func (d Dir) File(name string) ([]byte, error) {
	data, err := os.ReadFile(inside(d.Path, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", name, ledger.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read bundle: %w", err)
	}
	return data, nil
}

// Tile reads a tile, or an entry bundle for level -1.
func (d Dir) Tile(tile tlog.Tile) ([]byte, error) { return d.File(TilePath(tile)) }

// Events reads a chunk of events. It returns broken events for unreadable lines.
func (d Dir) Events(first int64, count int) ([]Event, error) {
	text, err := d.File(EventsPath(first/EventsPerFile, count))
	if err != nil {
		return nil, err
	}
	list := make([]Event, 0, count)
	for len(text) > 0 {
		line, rest, whole := bytes.Cut(text, []byte{'\n'})
		e := parseLine(line)
		if !whole && e.Broken == nil {
			e = broken(errCut)
		}
		list, text = append(list, e), rest
	}
	return list, nil
}

var errCut = errors.New("the last line has no end")
