package ledger

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/tlog"
)

// Directory is a Target: the file `checkpoint` is the newest one, and `checkpoints/…` has one file for each, named by its
// size in the way of tile paths (x001/x234/067 is 1,234,067 entries).
type Directory struct {
	path string
}

// NewDirectory returns a target that writes into an existing directory.
func NewDirectory(path string) *Directory { return &Directory{path: path} }

// String implements Target.
func (d *Directory) String() string { return d.path }

func (d *Directory) newest() string { return filepath.Join(d.path, "checkpoint") }

// Last implements Target.
func (d *Directory) Last(_ context.Context, origin string) (int64, error) {
	c, ok, err := readNote(d.newest())
	if err != nil {
		return 0, err
	}
	if !ok || c.Origin != origin {
		return -1, nil
	}
	return c.Tree.N, nil
}

// Take implements Target.
func (d *Directory) Take(_ context.Context, c Checkpoint) error {
	const fileMode, dirMode = 0o644, 0o755
	// The path of a tile of height 1, level 0, has the number behind "tile/1/0/".
	number := tlog.Tile{H: 1, N: c.Tree.N, W: 2}.Path()[len("tile/1/0/"):]
	file := filepath.Join(d.path, "checkpoints", filepath.FromSlash(number))
	if err := os.MkdirAll(filepath.Dir(file), dirMode); err != nil {
		return fmt.Errorf("make directory of checkpoints: %w", err)
	}
	if err := writeFile(file, c.Note, fileMode); err != nil {
		return err
	}
	// Last, so that a crash in between repeats the other.
	return writeFile(d.newest(), c.Note, fileMode)
}
