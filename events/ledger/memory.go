package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"
	"github.com/google/uuid"

	"novelgate/internal/osfile"
)

// ErrMemory is returned for a memory that must not sign: it is damaged, belongs to another origin or key, or lacks a
// signed checkpoint.
var ErrMemory = errors.New("the memory of the ledger must not sign")

// ErrLocked means that another process signs with the memory.
var ErrLocked = errors.New("another process signs with the memory")

// memoryIDFile has the random id of a memory. It is written once, and the signing process locks it.
const memoryIDFile = "id"

// readMemoryID returns the id of a memory. A memory is a directory with this id and, in a file named after each origin,
// the newest checkpoint that was signed through it. It fails with fs.ErrNotExist if there is none.
func readMemoryID(dir string) (uuid.UUID, error) {
	text, err := os.ReadFile(filepath.Join(dir, memoryIDFile))
	if err != nil {
		return uuid.Nil, fmt.Errorf("read the memory of the ledger: %w", err)
	}
	return parseMemoryID(dir, text)
}

func parseMemoryID(dir string, text []byte) (uuid.UUID, error) {
	id, err := uuid.Parse(strings.TrimSpace(string(text)))
	if err != nil {
		return uuid.Nil, fmt.Errorf("%w: %s has no id: %w", ErrMemory, dir, err)
	}
	return id, nil
}

// ensureMemory creates a memory if there is none, and returns its id.
func ensureMemory(dir string) (uuid.UUID, error) {
	id, err := readMemoryID(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	if err := makeLedgerDir(dir); err != nil {
		return uuid.Nil, err
	}
	// Another process may create it at the same moment.
	if err := createMemoryID(dir, uuid.New()); err != nil && !errors.Is(err, errOtherContent) {
		return uuid.Nil, err
	}
	return readMemoryID(dir)
}

// createMemoryID writes the id of a memory. It fails with errOtherContent if the memory has another id.
func createMemoryID(dir string, id uuid.UUID) error {
	return createFile(filepath.Join(dir, memoryIDFile), []byte(id.String()+"\n"), keyFileMode)
}

// checkpointFile returns the file with the newest checkpoint of an origin in a memory.
func checkpointFile(dir, origin string) string {
	return filepath.Join(dir, url.PathEscape(origin)+".checkpoint")
}

// readRemembered reads the newest checkpoint of an origin from a memory; ok is false if there is none.
func readRemembered(dir, origin string) (c Checkpoint, ok bool, err error) {
	c, ok, err = readNote(checkpointFile(dir, origin))
	if err == nil && ok && c.Origin != origin {
		err = fmt.Errorf("%w: %s has a checkpoint of the origin %s", ErrMemory, checkpointFile(dir, origin), c.Origin)
	}
	return c, ok, err
}

// remember replaces the newest checkpoint of an origin in a memory. When it returns, the checkpoint is on disk.
func remember(dir string, c Checkpoint) error {
	return writeFile(checkpointFile(dir, c.Origin), c.Note, keyFileMode)
}

// lockMemory locks a memory against all other processes, on this machine or on others that mount it, until unlock. It
// fails with ErrLocked if another process has the lock.
func lockMemory(dir string) (id uuid.UUID, unlock func(), err error) {
	file, err := osfile.Lock(filepath.Join(dir, memoryIDFile), os.O_RDWR, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, osfile.ErrLocked) {
		err = fmt.Errorf("%w: %s", ErrLocked, dir)
	}
	if err != nil {
		return uuid.Nil, nil, fmt.Errorf("lock the memory of the ledger: %w", err)
	}
	unlock = func() { _ = file.Close() } // closing releases the lock; nothing was written
	text, err := io.ReadAll(file)
	if err == nil {
		id, err = parseMemoryID(dir, text)
	}
	if err != nil {
		unlock()
		return uuid.Nil, nil, fmt.Errorf("read the memory %s: %w", dir, err)
	}
	return id, unlock, nil
}

// readNote reads a checkpoint from a file; ok is false if there is none.
func readNote(file string) (c Checkpoint, ok bool, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Checkpoint{}, false, nil
	}
	if err != nil {
		return Checkpoint{}, false, fmt.Errorf("read checkpoint file: %w", err)
	}
	if c, err = ParseCheckpoint(text); err != nil {
		return Checkpoint{}, false, fmt.Errorf("%s: %w", file, err)
	}
	return c, true, nil
}

// writeFile replaces a file atomically, also in case of a crash. When it returns, the file is on disk.
func writeFile(file string, data []byte, mode fs.FileMode) error {
	return placeFile(file, data, mode, (*renameio.PendingFile).CloseAtomicallyReplace)
}

var errOtherContent = errors.New("exists with other content")

// createFile creates a file atomically, also in case of a crash. If the file exists with the same content, it succeeds;
// with other content, it fails with errOtherContent.
func createFile(file string, data []byte, mode fs.FileMode) error {
	existing, err := os.ReadFile(file)
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
		existing, err = os.ReadFile(file)
	}
	if err != nil {
		return fmt.Errorf("read the existing file: %w", err)
	}
	if !bytes.Equal(existing, data) {
		return fmt.Errorf("%s %w", file, errOtherContent)
	}
	return nil
}

// linkOrRename gives a file a new name. A link never replaces a file that another process has written meanwhile, but
// some file systems have no links.
func linkOrRename(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Rename(from, to)
}

// placeFile writes a temporary file beside its destination, calls place to move it there, and syncs the directory.
func placeFile(file string, data []byte, mode fs.FileMode, place func(*renameio.PendingFile) error) error {
	dir := filepath.Dir(file)
	pending, err := renameio.NewPendingFile(file, renameio.WithTempDir(dir), renameio.WithStaticPermissions(mode))
	if err != nil {
		return fmt.Errorf("create file beside %s: %w", file, err)
	}
	defer pending.Cleanup() //nolint:errcheck // after a rename there is nothing to clean up
	if _, err = pending.Write(data); err == nil {
		err = place(pending)
	}
	if err == nil {
		err = osfile.Sync(dir)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
