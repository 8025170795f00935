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

	"novelgate/internal/system"
)

// Directory is a signer directory: all that may sign an origin, outside of the database. It has
//
//   - id: a random UUID, written once. The database records it with each origin that the directory signs. The signing
//     process locks this file.
//   - key: the private keys, one on each line.
//   - ORIGIN.checkpoint, for each origin: the newest note that was signed, written before the note is public.
//
// Replicas may share it. A copy of it must not sign: the copy does not know what the original signs.
type Directory string

// ErrDirectory is returned for a signer directory that must not sign: it is damaged, is not the one of the origin, may
// have the keys of another user, or lacks a signed note.
var ErrDirectory = errors.New("the signer directory must not sign")

// ErrLocked means that another process signs with the directory.
var ErrLocked = errors.New("another process signs with the directory")

func (d Directory) idFile() string { return filepath.Join(string(d), "id") }

// KeyFile returns the path of the private keys.
func (d Directory) KeyFile() string { return filepath.Join(string(d), "key") }

func (d Directory) noteFile(origin string) string {
	return filepath.Join(string(d), url.PathEscape(origin)+".checkpoint")
}

// readID fails with fs.ErrNotExist if d is not a signer directory.
func (d Directory) readID() (uuid.UUID, error) {
	text, err := os.ReadFile(d.idFile())
	if err != nil {
		return uuid.Nil, fmt.Errorf("read the signer directory: %w", err)
	}
	return d.parseID(text)
}

func (d Directory) parseID(text []byte) (uuid.UUID, error) {
	id, err := uuid.ParseBytes(bytes.TrimSpace(text))
	if err != nil {
		return uuid.Nil, fmt.Errorf("%w: %s: %w", ErrDirectory, d.idFile(), err)
	}
	return id, nil
}

// ensure makes d a signer directory, unless it is one, and returns its id. The key of a new one is made for the origin,
// unless d has a key file.
func (d Directory) ensure(origin string) (uuid.UUID, error) {
	id, err := d.readID()
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o755 // the account of the embedded database needs access to the data directory
	}
	if err := os.MkdirAll(string(d), mode); err != nil {
		return uuid.Nil, fmt.Errorf("make the signer directory: %w", err)
	}
	if _, err := os.Stat(d.KeyFile()); errors.Is(err, fs.ErrNotExist) {
		if _, err := d.appendKey(origin); err != nil {
			return uuid.Nil, err
		}
	}
	// The id comes last: a directory without it is not a signer directory, and the next start completes it.
	if err := createFile(d.idFile(), []byte(uuid.NewString()+"\n")); err != nil {
		return uuid.Nil, err
	}
	return d.readID()
}

// lock locks d against all other processes, on this machine or on others that mount it, until unlock. It fails with
// ErrLocked if another process has the lock.
func (d Directory) lock() (id uuid.UUID, unlock func(), err error) {
	file, err := system.Lock(d.idFile(), os.O_RDWR, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, system.ErrLocked) {
		err = fmt.Errorf("%w: %s", ErrLocked, d)
	}
	if err != nil {
		return uuid.Nil, nil, fmt.Errorf("lock the signer directory: %w", err)
	}
	unlock = func() { _ = file.Close() } // closing releases the lock; nothing was written
	text, err := io.ReadAll(file)
	if err == nil {
		id, err = d.parseID(text)
	}
	if err != nil {
		unlock()
		return uuid.Nil, nil, fmt.Errorf("read the signer directory: %w", err)
	}
	return id, unlock, nil
}

// signed reads the newest note of an origin; ok is false if there is none.
func (d Directory) signed(origin string) (c Checkpoint, ok bool, err error) {
	text, err := os.ReadFile(d.noteFile(origin))
	if errors.Is(err, fs.ErrNotExist) {
		return Checkpoint{}, false, nil
	}
	if err == nil {
		c, err = ParseCheckpoint(text)
	}
	if err == nil && c.Origin != origin {
		err = fmt.Errorf("%w: it has the origin %s", ErrDirectory, c.Origin)
	}
	if err != nil {
		return Checkpoint{}, false, fmt.Errorf("read the signed note %s: %w", d.noteFile(origin), err)
	}
	return c, true, nil
}

// store replaces the newest note of an origin. When it returns, the note is on disk.
func (d Directory) store(c Checkpoint) error {
	return placeFile(d.noteFile(c.Origin), c.Note, (*renameio.PendingFile).CloseAtomicallyReplace)
}

// createFile creates a file atomically, also in case of a crash. A file that exists stays, and is not an error.
func createFile(file string, data []byte) error {
	return placeFile(file, data, func(f *renameio.PendingFile) error {
		if err := f.Sync(); err != nil {
			return err
		}
		if err := linkOrRename(f.Name(), file); !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	})
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

// privateMode is the mode of all files of a signer directory.
const privateMode = 0o600

// placeFile writes a temporary file beside its destination, calls place to move it there, and syncs the directory.
func placeFile(file string, data []byte, place func(*renameio.PendingFile) error) error {
	dir := filepath.Dir(file)
	pending, err := renameio.NewPendingFile(file, renameio.WithTempDir(dir), renameio.WithStaticPermissions(privateMode))
	if err != nil {
		return fmt.Errorf("create file beside %s: %w", file, err)
	}
	defer pending.Cleanup() //nolint:errcheck // after a rename there is nothing to clean up
	if _, err = pending.Write(data); err == nil {
		err = place(pending)
	}
	if err == nil {
		err = system.Sync(dir)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

// AddKey adds a private key for an origin, and returns its public key. It fails with fs.ErrNotExist if d is not a
// signer directory.
func (d Directory) AddKey(origin string) (verifierKey string, err error) {
	if _, err := d.readID(); err != nil {
		return "", err
	}
	return d.appendKey(origin)
}

func (d Directory) appendKey(origin string) (verifierKey string, err error) {
	private, verifierKey, err := makeKey(origin)
	if err != nil {
		return "", err
	}
	f, err := os.OpenFile(d.KeyFile(), os.O_WRONLY|os.O_APPEND|os.O_CREATE, privateMode)
	if err != nil {
		return "", fmt.Errorf("open ledger keys: %w", err)
	}
	_, err = f.WriteString(private + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", fmt.Errorf("write ledger keys: %w", err)
	}
	return verifierKey, nil
}

// checkOwner fails with ErrDirectory if another user than this process's own or root owns the directory or its keys, or
// if every user can write to them: whose keys they are is then unknown. A directory below /tmp may have been there
// first.
func (d Directory) checkOwner() error {
	const others = 0o002
	for _, path := range []string{string(d), d.KeyFile()} {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("find the owner of the signer directory: %w", err)
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		if ok && owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
			return fmt.Errorf("%w: %s belongs to the user %d, and this process runs as %d", ErrDirectory, path, owner.Uid,
				os.Geteuid())
		}
		if info.Mode().Perm()&others != 0 {
			return fmt.Errorf("%w: every user can write to %s", ErrDirectory, path)
		}
	}
	return nil
}

// keys reads the private keys: one in the form of C2SP signed-note on each line; empty lines and those that begin with
// # are skipped. It fails with ErrKeyFile for an invalid line or without any key, and as checkOwner does.
func (d Directory) keys() (keys []key, err error) {
	if err := d.checkOwner(); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(d.KeyFile())
	if err != nil {
		return nil, fmt.Errorf("read ledger keys: %w", err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		k, err := parseKey(line)
		if err != nil { // the error must not quote the line
			return nil, fmt.Errorf("%w: line %d of %s", ErrKeyFile, n, d.KeyFile())
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: %s has no key", ErrKeyFile, d.KeyFile())
	}
	return keys, nil
}

// KeysAreExposed reports whether other users than the owner have any access to the private keys.
func (d Directory) KeysAreExposed() bool {
	const others = 0o077
	info, err := os.Stat(d.KeyFile())
	return err == nil && info.Mode().Perm()&others != 0
}
