package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/events/ledger"
)

// eventsPerFile is the number of events in a full chunk, a multiple of the width of tiles.
const eventsPerFile = 16 * ledger.TileWidth

// Files of a bundle beside tiles and events.
const (
	manifestFile   = "manifest.json"
	checkpointFile = "checkpoint"
	keyFile        = "key"
)

// bundleFormat is the name and version of the format of a bundle.
const bundleFormat = "novelgate/bundle/v1"

// tilePath returns the path of a tile relative to the log prefix or to the directory of a bundle, as in C2SP
// tlog-tiles. Entry bundles have level -1.
func tilePath(t tlog.Tile) string {
	level := "entries"
	if t.L >= 0 {
		level = fmt.Sprint(t.L)
	}
	path := "tile/" + level + "/" + ledger.NumberPath(t.N)
	if t.W < ledger.TileWidth {
		path += fmt.Sprintf(".p/%d", t.W)
	}
	return path
}

// eventsPath returns the path of a chunk of events relative to the directory of a bundle.
func eventsPath(chunk int64, count int) string {
	path := "events/" + ledger.NumberPath(chunk)
	if count < eventsPerFile {
		path += fmt.Sprintf(".p/%d", count)
	}
	return path + ".ndjson"
}

// chunkLength returns the number of events below size in the chunk that begins at first.
func chunkLength(first, size int64) int { return int(min(eventsPerFile, size-first)) }

func inside(dir, path string) string { return filepath.Join(dir, filepath.FromSlash(path)) }

// Manifest describes the contents of a bundle. It is not signed; only the checkpoint proves anything.
type Manifest struct {
	Format string `json:"format"`
	Origin string `json:"origin"`
	// log index of the first event; greater than 0 in a bundle that continues another one
	FirstLogIndex int64     `json:"firstLogIndex"`
	LastLogIndex  int64     `json:"lastLogIndex"` // -1: no events
	Size          int64     `json:"size"`         // entries that the checkpoint covers
	Events        int64     `json:"events"`       // in this bundle
	EventsPerFile int64     `json:"eventsPerFile"`
	Complete      bool      `json:"complete"` // false until the first export is complete
	ExportedAt    time.Time `json:"exportedAt"`
}

// ErrNoBundle is returned for a bundle that is incomplete or of another format.
var ErrNoBundle = errors.New("no complete bundle of this format")

// readManifest reads the manifest of a bundle. It fails with ErrNoBundle, or with fs.ErrNotExist if there is no
// manifest.
func readManifest(dir string) (Manifest, error) {
	text, err := os.ReadFile(inside(dir, manifestFile))
	if err != nil {
		return Manifest{}, fmt.Errorf("read manifest: %w", err)
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return Manifest{}, fmt.Errorf("%w: %s: %w", ErrNoBundle, dir, err)
	}
	if m.Format != bundleFormat || m.EventsPerFile != eventsPerFile || m.FirstLogIndex < 0 ||
		m.FirstLogIndex%eventsPerFile != 0 || m.FirstLogIndex > m.Size {
		return Manifest{},
			fmt.Errorf("%w: %s: format %q, %d events a file, from %d of %d", ErrNoBundle, dir, m.Format, m.EventsPerFile,
				m.FirstLogIndex, m.Size)
	}
	return m, nil
}

func (m Manifest) write(dir string) error {
	text, err := json.Marshal(m, jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("encode manifest: %w", err)
	}
	return writeFile(inside(dir, manifestFile), append(text, '\n'))
}

// Bundles is a Source: a bundle and the bundles that continue it, the oldest first.
type Bundles []bundle

type bundle struct {
	path string
	Manifest
}

var errNoContinuation = errors.New("does not continue the bundle before it")

// OpenBundles opens bundles, the oldest first. It fails with ErrNoBundle for an incomplete export, and unless each
// bundle continues the one before it.
func OpenBundles(paths []string) (Bundles, error) {
	var list Bundles
	for i, path := range paths {
		m, err := readManifest(path)
		if err == nil && !m.Complete {
			err = fmt.Errorf("%w: the export to %s is incomplete; repeat the command to continue it", ErrNoBundle, path)
		}
		if err != nil {
			return nil, fmt.Errorf("open bundle: %w", err)
		}
		if i > 0 && (m.FirstLogIndex > list.Size() || m.Size < list.Size()) {
			return nil, fmt.Errorf("%s, from log index %d, %w, of %d entries", path, m.FirstLogIndex, errNoContinuation,
				list.Size())
		}
		list = append(list, bundle{path, m})
	}
	return list, nil
}

// Size is the number of entries that the newest checkpoint covers.
func (b Bundles) Size() int64 { return b[len(b)-1].Size }

// First implements Source.
func (b Bundles) First() int64 { return b[0].FirstLogIndex }

// Checkpoint implements Source.
func (b Bundles) Checkpoint(context.Context) ([]byte, error) {
	return b[len(b)-1:].file(checkpointFile)
}

// Keys implements Source.
func (b Bundles) Keys(context.Context) ([]string, error) {
	text, err := b[len(b)-1:].file(keyFile)
	return strings.Fields(string(text)), err
}

// Tile implements Source.
func (b Bundles) Tile(_ context.Context, tile tlog.Tile) ([]byte, error) {
	return b.file(tilePath(tile))
}

// Events implements Source. It returns at most the events of one file. Unreadable lines are broken events.
func (b Bundles) Events(_ context.Context, first int64, count int, size int64) ([]StoredEvent, error) {
	start := first / eventsPerFile * eventsPerFile
	text, err := b.file(eventsPath(start/eventsPerFile, chunkLength(start, size)))
	if err != nil {
		return nil, err
	}
	list := make([]StoredEvent, 0, eventsPerFile)
	for len(text) > 0 {
		line, rest, whole := bytes.Cut(text, []byte{'\n'})
		e := parseLine(line)
		if !whole && e.Broken == nil {
			e = broken(errNoLineEnd)
		}
		list, text = append(list, e), rest
	}
	// A verification reads from the start of a file, and gets lines beyond count, too: they are extra events.
	if before := int(first - start); before > 0 {
		list = list[min(before, len(list)):]
		list = list[:min(count, len(list))]
	}
	return list, nil
}

// file reads a file by its name inside a bundle, from the newest bundle that has it. It fails with ledger.ErrNotFound
// if none has it.
func (b Bundles) file(name string) ([]byte, error) {
	for _, in := range slices.Backward(b) {
		data, err := os.ReadFile(inside(in.path, name))
		switch {
		case err == nil:
			return data, nil
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("read bundle: %w", err)
		}
	}
	return nil, fmt.Errorf("%s: %w", name, ledger.ErrNotFound)
}

var errEncoding = errors.New("is not valid UTF-8")

// timeFormat has microseconds, the precision of the database.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// appendEvent appends an event as JSON without line ends, as in a line of a bundle: the stored bytes, without decoding.
func appendEvent(dst []byte, e *eventlog.Row) ([]byte, error) {
	dst = strconv.AppendInt(append(dst, `{"logIndex":`...), e.LogIndex, 10)
	var failed error
	dst = appendText(dst, `,"id":`, e.ID, &failed)
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
	return append(dst, '}'), failed
}

// appendText appends a member with a text. It sets failed for a text that is not UTF-8.
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
	errMember    = errors.New("a member is missing")
	errNoLineEnd = errors.New("the last line has no end")
)

func broken(err error) StoredEvent { return StoredEvent{Broken: err} }

// parseLine parses a line. It returns a broken event for a line that is not an event.
func parseLine(text []byte) StoredEvent {
	var l line
	if err := json.Unmarshal(text, &l, json.RejectUnknownMembers(true)); err != nil {
		return broken(err)
	}
	if l.LogIndex == nil || l.ID == nil || l.Source == nil || l.Type == nil || l.StreamType == nil ||
		l.StreamID == nil || l.StreamVersion == nil || l.RecordedAt == nil || l.Data == nil || l.Metadata == nil {
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
	e := StoredEvent{Row: eventlog.Row{
		LogIndex: *l.LogIndex, ID: *l.ID, Source: *l.Source, Type: *l.Type, StreamType: *l.StreamType, StreamID: *l.StreamID,
		StreamVersion: int(*l.StreamVersion), RecordedAt: at, Data: []byte(*l.Data), Metadata: metadata,
	}}
	if l.Personal != nil {
		e.Personal = []byte(*l.Personal)
	}
	if l.Salt != nil {
		e.Salt = uuid.NullUUID{UUID: *l.Salt, Valid: true}
	}
	return e
}
