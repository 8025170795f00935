package ledger

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"
)

// ErrKeyFile is returned for a file that is not a key file.
var ErrKeyFile = errors.New("not a file of ledger keys")

const (
	privatePrefix = "PRIVATE+KEY+"
	algEd25519    = 1
	keyFileMode   = 0o600
)

// Key is a private key that signs checkpoints.
type Key struct {
	seed []byte // Ed25519
}

// signer returns the signer and the public key for an origin. The line of a key file has the origin for which the key
// was made, but a key can sign under any origin.
func (k Key) signer(origin string) (_ note.Signer, verifierKey string, err error) {
	private := ed25519.NewKeyFromSeed(k.seed)
	public, ok := private.Public().(ed25519.PublicKey)
	if !ok {
		return nil, "", ErrKeyFile
	}
	if verifierKey, err = note.NewEd25519VerifierKey(origin, public); err != nil {
		return nil, "", fmt.Errorf("name key after origin %q: %w", origin, err)
	}
	_, rest, _ := strings.Cut(verifierKey, "+")
	hash, _, _ := strings.Cut(rest, "+")
	text := privatePrefix + origin + "+" + hash + "+" + base64.StdEncoding.EncodeToString(append([]byte{algEd25519},
		k.seed...))
	signer, err := note.NewSigner(text)
	if err != nil {
		return nil, "", fmt.Errorf("name key after origin %q: %w", origin, err)
	}
	return signer, verifierKey, nil
}

// LoadKeys reads a key file: a private key in the form of C2SP signed-note on each line; empty lines and those that
// begin with # are skipped. It fails with fs.ErrNotExist if there is no file, and with ErrKeyFile for an invalid line.
func LoadKeys(file string) ([]Key, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read ledger keys: %w", err)
	}
	return parseKeys(string(text), file)
}

// parseKeys parses the text of a key file. file names it in errors.
func parseKeys(text, file string) (keys []Key, err error) {
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		// The error must not quote the line.
		if _, err := note.NewSigner(line); err != nil {
			return nil, fmt.Errorf("%w: line %d of %s", ErrKeyFile, n+1, file)
		}
		// Split from the left, because the base64 at the end may contain plus signs.
		fields := strings.SplitN(strings.TrimPrefix(line, privatePrefix), "+", 3)
		raw, err := base64.StdEncoding.DecodeString(fields[len(fields)-1])
		if err != nil || len(raw) != 1+ed25519.SeedSize || raw[0] != algEd25519 {
			return nil, fmt.Errorf("%w: line %d of %s", ErrKeyFile, n+1, file)
		}
		keys = append(keys, Key{seed: raw[1:]})
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: %s has no key", ErrKeyFile, file)
	}
	return keys, nil
}

// ReadableByOthers reports whether other users than the owner have any access to a key file.
func ReadableByOthers(file string) bool {
	const others = 0o077
	info, err := os.Stat(file)
	return err == nil && info.Mode().Perm()&others != 0
}

// memoryPrefix begins the line of a key file with the id of the memory of its keys. The last such line counts.
const memoryPrefix = "# memory "

// memoryOfKeys returns the id of the memory in a key file; none if the file is older than memories.
func memoryOfKeys(file string) (memory uuid.NullUUID, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return memory, fmt.Errorf("read ledger keys: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		named, ok := strings.CutPrefix(strings.TrimSpace(line), memoryPrefix)
		if !ok {
			continue
		}
		if memory.UUID, err = uuid.Parse(named); err != nil {
			return memory, fmt.Errorf("%w: %s has no id of a memory in %q: %w", ErrKeyFile, file, line, err)
		}
		memory.Valid = true
	}
	return memory, nil
}

// AddKey appends a new private key for an origin to a key file, and returns the public key. If the file does not exist,
// it creates the file, readable only by its owner, and the memory in memoryDir unless that exists.
func AddKey(file, memoryDir, origin string) (verifierKey string, err error) {
	private, verifierKey, err := note.GenerateKey(rand.Reader, origin)
	if err != nil {
		return "", fmt.Errorf("make ledger key: %w", err)
	}
	lines := private + "\n"
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		id, err := ensureMemory(memoryDir)
		if err != nil {
			return "", err
		}
		lines = memoryPrefix + id.String() + "\n" + lines
	}
	return verifierKey, appendKeyLines(file, lines)
}

// NewMemory creates a memory for keys whose memory is lost, and adds its id to the key file. It cannot sign origins
// that are bound to another memory. It fails with fs.ErrExist if a memory exists.
func NewMemory(file, memoryDir string) error {
	if _, err := LoadKeys(file); err != nil {
		return err
	}
	if _, err := readMemoryID(memoryDir); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("make a memory of the ledger: %s: %w", memoryDir, fs.ErrExist), err)
	}
	id, err := ensureMemory(memoryDir)
	if err != nil {
		return err
	}
	return appendKeyLines(file, memoryPrefix+id.String()+"\n")
}

func appendKeyLines(file, lines string) error {
	if err := makeLedgerDir(filepath.Dir(file)); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, keyFileMode)
	if err != nil {
		return fmt.Errorf("open ledger keys: %w", err)
	}
	_, err = f.WriteString(lines)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write ledger keys: %w", err)
	}
	return nil
}

// makeLedgerDir creates the directory of keys or of a memory, and its parents.
func makeLedgerDir(dir string) error {
	dirMode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		dirMode = 0o755 // the account of the embedded database needs access to the data directory
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("make directory of the ledger: %w", err)
	}
	return nil
}
