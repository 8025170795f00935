package bundle

import (
	"fmt"
	"path/filepath"

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

// TilePath is where a tile is, seen from the log prefix or from the directory of a bundle, as C2SP tlog-tiles has it.
// Entry bundles have level -1.
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

// EventsPath is where a chunk of events is, seen from the directory of a bundle.
func EventsPath(chunk int64, count int) string {
	path := "events/" + number(chunk)
	if count < EventsPerFile {
		path += fmt.Sprintf(".p/%d", count)
	}
	return path + ".ndjson"
}

// number is a number in groups of three digits.
func number(n int64) string {
	text := fmt.Sprintf("%03d", n%1000)
	for n /= 1000; n > 0; n /= 1000 {
		text = fmt.Sprintf("x%03d/", n%1000) + text
	}
	return text
}

// Width is how many events the chunk that begins at first has below size.
func Width(first, size int64) int { return int(min(EventsPerFile, size-first)) }

func inside(dir, path string) string { return filepath.Join(dir, filepath.FromSlash(path)) }
