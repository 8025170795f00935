package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
)

// Dir is a bundle on disk.
type Dir struct {
	Path     string
	Manifest Manifest
}

// OpenDir opens a bundle whose export has ended.
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

// Events reads a chunk of events. Lines that are none come back as broken ones.
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
			e = Event{LogIndex: NoLogIndex, Broken: errCut}
		}
		list, text = append(list, e), rest
	}
	return list, nil
}

var errCut = errors.New("the last line has no end")
