package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// writeFile replaces a file: a reader, or a crash, sees the old one or the new one. When it returns, the new one is
// on disk.
func writeFile(file string, data []byte, mode fs.FileMode) error {
	return placeFile(file, data, mode, (*renameio.PendingFile).CloseAtomicallyReplace)
}

var errOtherContent = errors.New("is there with another content")

// createFile writes a file that is not there yet: a reader, or a crash, sees all of it or none. One that is there
// stays; if its content is another one, createFile fails with errOtherContent.
func createFile(file string, data []byte, mode fs.FileMode) error {
	there, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		err = placeFile(file, data, mode, func(f *renameio.PendingFile) error {
			if err := f.Sync(); err != nil {
				return err
			}
			return linkOrRename(f.Name(), file)
		})
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		there, err = os.ReadFile(file)
	}
	if err != nil {
		return fmt.Errorf("compare with what is there: %w", err)
	}
	if !bytes.Equal(there, data) {
		return fmt.Errorf("%s %w", file, errOtherContent)
	}
	return nil
}

// linkOrRename gives a file a new name. A link never takes the place of a file that somebody else has written
// meanwhile, but not every file system has links.
func linkOrRename(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Rename(from, to)
}

// placeFile writes a file beside its place, and then puts it there.
func placeFile(file string, data []byte, mode fs.FileMode, place func(*renameio.PendingFile) error) error {
	dir := filepath.Dir(file)
	pending, err := renameio.NewPendingFile(file, renameio.WithTempDir(dir), renameio.WithStaticPermissions(mode))
	if err != nil {
		return fmt.Errorf("create file beside %s: %w", file, err)
	}
	defer pending.Cleanup() //nolint:errcheck // after a rename it is gone
	if _, err = pending.Write(data); err == nil {
		err = place(pending)
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

// syncDir puts the names in a directory on disk.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
