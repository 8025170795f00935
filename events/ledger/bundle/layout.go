package bundle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
)

// EventsPerFile is the number of events in a full chunk, a multiple of the width of tiles.
const EventsPerFile = 16 * ledger.TileWidth

// Names of the files of a bundle beside tiles and events.
const (
	ManifestFile   = "manifest.json"
	CheckpointFile = "checkpoint"
	KeyFile        = "key"
)

// TilePath returns the path of a tile relative to the log prefix or to the directory of a bundle, as in C2SP
// tlog-tiles. Entry bundles have level -1.
func TilePath(t tlog.Tile) string {
	level := "entries"
	if t.L >= 0 {
		level = fmt.Sprint(t.L)
	}
	path := "tile/" + level + "/" + number(t.N)
	if t.W < ledger.TileWidth {
		path += fmt.Sprintf(".p/%d", t.W)
	}
	return path
}

// EventsPath returns the path of a chunk of events relative to the directory of a bundle.
func EventsPath(chunk int64, count int) string {
	path := "events/" + number(chunk)
	if count < EventsPerFile {
		path += fmt.Sprintf(".p/%d", count)
	}
	return path + ".ndjson"
}

// number returns a number in groups of three digits.
func number(n int64) string {
	text := fmt.Sprintf("%03d", n%1000)
	for n /= 1000; n > 0; n /= 1000 {
		text = fmt.Sprintf("x%03d/", n%1000) + text
	}
	return text
}

// Width returns the number of events below size in the chunk that begins at first.
func Width(first, size int64) int { return int(min(EventsPerFile, size-first)) }

func inside(dir, path string) string { return filepath.Join(dir, filepath.FromSlash(path)) }

// Format is the name and version of the format of a bundle.
const Format = "novelgate/bundle/v1"

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

// ErrNoBundle is returned for a directory without a bundle, or with one of another format.
var ErrNoBundle = errors.New("no bundle of this format")

// ReadManifest reads the manifest of a bundle. It fails with ErrNoBundle, or with fs.ErrNotExist if there is no
// manifest.
func ReadManifest(dir string) (Manifest, error) {
	text, err := os.ReadFile(inside(dir, ManifestFile))
	if err != nil {
		return Manifest{}, fmt.Errorf("read manifest: %w", err)
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return Manifest{}, fmt.Errorf("%w: %s: %w", ErrNoBundle, dir, err)
	}
	if m.Format != Format || m.EventsPerFile != EventsPerFile || m.FirstLogIndex < 0 ||
		m.FirstLogIndex%EventsPerFile != 0 || m.FirstLogIndex > m.Size {
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
	return writeFile(inside(dir, ManifestFile), append(text, '\n'))
}
