package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/tlog"

	"novelgate/internal/database"
)

// Directory is a Target: the file `checkpoint` is the newest one, and `checkpoints/…` has one file for each, named by
// its size in the way of tile paths (x001/x234/067 is 1,234,067 entries). It is of one origin and one history: what is
// in it shows when the database has another one.
type Directory struct {
	store *Store
	path  string
}

// NewDirectory returns a target that writes into an existing directory, and compares it with the ledger that it reads
// through db.
func NewDirectory(db database.Querier, path string) *Directory {
	return &Directory{store: NewStore(db), path: path}
}

// String implements Target.
func (d *Directory) String() string { return d.path }

func (d *Directory) newest() string { return filepath.Join(d.path, "checkpoint") }

// Last implements Target. It fails with ErrPublished if the newest checkpoint in the directory is not one of the ledger
// as it is now, and with ErrForked, too, if it is of another history of the same origin.
func (d *Directory) Last(ctx context.Context, origin string) (int64, error) {
	c, ok, err := d.readNewest(origin)
	if err != nil {
		return 0, err
	}
	if !ok {
		return -1, nil
	}
	keys, err := d.store.VerifierKeys(ctx, c)
	if err != nil {
		return 0, err
	}
	if len(keys) == 0 {
		return 0, fmt.Errorf("%w: %s bears no signature of a key that the ledger has used: find out who wrote it, or name "+
			"another directory with --ledger-publish-dir",
			ErrPublished, d.newest())
	}
	err = d.store.continues(ctx, c)
	if errors.Is(err, ErrForked) {
		return 0, fmt.Errorf("%w: %s: %w: start a new origin with --ledger-origin and another --ledger-publish-dir, and "+
			"say why in public",
			ErrPublished, d.newest(), err)
	}
	if err != nil {
		return 0, fmt.Errorf("compare with %s: %w", d.newest(), err)
	}
	return c.Tree.N, nil
}

// readNewest reads the newest checkpoint; ok is false if there is none. It fails with ErrPublished if that is of
// another origin.
func (d *Directory) readNewest(origin string) (c Checkpoint, ok bool, err error) {
	c, ok, err = readNote(d.newest())
	if err == nil && ok && c.Origin != origin {
		err = fmt.Errorf("%w: %s is of the origin %s, and the ledger is signed as %s: give it a directory of its own with "+
			"--ledger-publish-dir",
			ErrPublished, d.newest(), c.Origin, origin)
	}
	return c, ok, err
}

// Take implements Target. It fails with ErrPublished if there is another checkpoint of that size, or of another origin.
func (d *Directory) Take(_ context.Context, c Checkpoint) error {
	newest, ok, err := d.readNewest(c.Origin)
	if err != nil {
		return err
	}
	const fileMode, dirMode = 0o644, 0o755
	// The path of a tile of height 1, level 0, has the number behind "tile/1/0/".
	number := tlog.Tile{H: 1, N: c.Tree.N, W: 2}.Path()[len("tile/1/0/"):]
	file := filepath.Join(d.path, "checkpoints", filepath.FromSlash(number))
	if err := os.MkdirAll(filepath.Dir(file), dirMode); err != nil {
		return fmt.Errorf("make directory of checkpoints: %w", err)
	}
	err = createFile(file, c.Note, fileMode)
	if errors.Is(err, errOtherContent) {
		return fmt.Errorf("%w: %w: find out of which history it is, and name another directory with --ledger-publish-dir",
			ErrPublished, err)
	}
	if err != nil {
		return err
	}
	// Another replica may be ahead. If it gets ahead just now, the newest one goes back until the next look for new ones.
	if ok && newest.Tree.N >= c.Tree.N {
		return nil
	}
	// Last, so that a crash in between repeats the other.
	return writeFile(d.newest(), c.Note, fileMode)
}
