package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/osfile"
)

// Signing is all that a service needs to sign an origin. A handover moves it to the service that continues the ledger.
type Signing struct {
	Keys   string    // content of the key file
	Memory uuid.UUID // id of the memory
	Last   []byte    // newest checkpoint of the origin
}

// Retirement says who continues an origin whose memory was retired.
type Retirement struct {
	Promotion uuid.UUID
	Successor string // public URL
	memory    uuid.UUID
}

// retiredFile replaces the file with the id of a retired memory.
const retiredFile = "handed-over"

// ReadRetirement reads whether a memory was retired; ok is false if it was not.
func ReadRetirement(dir string) (r Retirement, ok bool, err error) {
	text, err := os.ReadFile(filepath.Join(dir, retiredFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Retirement{}, false, nil
	}
	if err != nil {
		return Retirement{}, false, fmt.Errorf("read the memory of the ledger: %w", err)
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return Retirement{}, false, fmt.Errorf("%w: %s/%s is damaged", ErrMemory, dir, retiredFile)
	}
	r.memory, err = uuid.Parse(fields[0])
	if err == nil {
		r.Promotion, err = uuid.Parse(fields[1])
	}
	if err != nil {
		return Retirement{}, false, fmt.Errorf("%w: %s/%s is damaged: %w", ErrMemory, dir, retiredFile, err)
	}
	if len(fields) > 2 {
		r.Successor = fields[2]
	}
	return r, true, nil
}

// Retire takes a memory out of use until Reinstate or Place, and returns what its successor needs to sign the origin of
// last. It fails with ErrMemory unless last is the newest checkpoint of its origin in the memory, and if the memory was
// retired for another promotion. It can be repeated.
func Retire(keyFile, dir string, last Checkpoint, to Retirement) (Signing, error) {
	keys, err := os.ReadFile(keyFile)
	if err != nil {
		return Signing{}, fmt.Errorf("read ledger keys: %w", err)
	}
	found, retired, err := ReadRetirement(dir)
	if err != nil {
		return Signing{}, err
	}
	memory := found.memory
	if !retired {
		var unlock func()
		if memory, unlock, err = lockMemory(dir); err != nil {
			return Signing{}, err
		}
		defer unlock()
	} else if found.Promotion != to.Promotion {
		return Signing{}, fmt.Errorf("%w: it was handed over to %s before", ErrMemory, found.Successor)
	}
	c, ok, err := readRemembered(dir, last.Origin)
	if err == nil && (!ok || c.Tree != last.Tree) {
		err = fmt.Errorf("%w: its newest checkpoint is not the last one of %s", ErrMemory, last.Origin)
	}
	if err != nil {
		return Signing{}, err
	}
	text := fmt.Sprintf("%s\n%s\n%s\n", memory, to.Promotion, to.Successor)
	if err := createFile(filepath.Join(dir, retiredFile), []byte(text), keyFileMode); err != nil {
		return Signing{}, err
	}
	if err := removeFile(filepath.Join(dir, memoryIDFile)); err != nil {
		return Signing{}, err
	}
	return Signing{Keys: string(keys), Memory: memory, Last: last.Note}, nil
}

// Reinstate undoes Retire, and stores the keys if there is no key file: the file of the handover, which is deleted
// then, may be the only one that has them. It fails with ErrMemory if dir is another memory, or was retired for another
// promotion, and with fs.ErrNotExist if dir is not a memory. It can be repeated.
func (s *Signing) Reinstate(keyFile, dir string, promotion uuid.UUID) error {
	found, retired, err := ReadRetirement(dir)
	if err == nil && !retired {
		found.memory, err = readMemoryID(dir)
	}
	switch {
	case err != nil:
		return err
	case found.memory != s.Memory:
		return fmt.Errorf("%w: %s is %s, and %s was handed over", ErrMemory, dir, found.memory, s.Memory)
	case retired && found.Promotion != promotion:
		return fmt.Errorf("%w: it was handed over to %s", ErrMemory, found.Successor)
	}
	if _, err = os.Stat(keyFile); errors.Is(err, fs.ErrNotExist) {
		if err = makeLedgerDir(filepath.Dir(keyFile)); err == nil {
			err = createFile(keyFile, []byte(s.Keys), keyFileMode)
		}
	}
	if err == nil {
		err = createMemoryID(dir, s.Memory)
	}
	if err == nil {
		err = removeFile(filepath.Join(dir, retiredFile))
	}
	if err != nil {
		return fmt.Errorf("reinstate the memory of the ledger: %w", err)
	}
	return nil
}

// removeFile removes a file, if it exists. When it returns, the file is gone from the disk.
func removeFile(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", file, err)
	}
	return osfile.Sync(filepath.Dir(file))
}

// Verify returns the last checkpoint. It fails unless one of the keys has signed it.
func (s *Signing) Verify() (Checkpoint, error) {
	c, err := ParseCheckpoint(s.Last)
	if err != nil {
		return Checkpoint{}, err
	}
	keys, err := s.VerifierKeys(c.Origin)
	if err != nil {
		return Checkpoint{}, err
	}
	return OpenCheckpoint(s.Last, keys)
}

// VerifierKeys returns the public keys for an origin.
func (s *Signing) VerifierKeys(origin string) (public []string, err error) {
	keys, err := parseKeys(s.Keys, "the keys")
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		_, verifier, err := key.signer(origin)
		if err != nil {
			return nil, err
		}
		public = append(public, verifier)
	}
	return public, nil
}

// Place stores keys and memory where a replica finds them. It never replaces other keys or another memory, and never
// sets a memory back. Beside another memory it stores nothing, and fails with ErrMemory. It can be repeated.
func (s *Signing) Place(keyFile, dir string) error {
	c, err := s.Verify()
	if err != nil {
		return err
	}
	id, err := readMemoryID(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case id != s.Memory:
		return fmt.Errorf("%w: %s is %s, and not %s, which signs %s", ErrMemory, dir, id, s.Memory, c.Origin)
	}
	if err := errors.Join(makeLedgerDir(filepath.Dir(keyFile)), makeLedgerDir(dir)); err != nil {
		return err
	}
	if err := createFile(keyFile, []byte(s.Keys), keyFileMode); err != nil {
		return fmt.Errorf("place the keys of the ledger: %w", err)
	}
	before, known, err := readRemembered(dir, c.Origin)
	if err == nil && (!known || before.Tree.N < c.Tree.N) {
		err = remember(dir, c)
	}
	// The id comes last: a directory without it is not a memory.
	if err == nil {
		err = createMemoryID(dir, s.Memory)
	}
	if err == nil {
		err = removeFile(filepath.Join(dir, retiredFile)) // of an earlier handover: the memory has returned
	}
	if err != nil {
		return fmt.Errorf("place the memory of the ledger: %w", err)
	}
	return nil
}

// EnsureKey makes sure that a new origin can be signed here: it creates a key and a memory unless they exist. If the
// memory in dir was handed over, a new memory with another id takes its place.
func EnsureKey(keyFile, dir, origin string) error {
	_, err := LoadKeys(keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = AddKey(keyFile, dir, origin)
	} else if err == nil {
		if _, err = readMemoryID(dir); errors.Is(err, fs.ErrNotExist) {
			err = newMemory(keyFile, dir)
		}
	}
	if err != nil {
		return err
	}
	return removeFile(filepath.Join(dir, retiredFile))
}

// moveMemorySQL binds the origin of a former mirror to the memory that signs it from now on. $1: origin, $2: memory.
const moveMemorySQL = `UPDATE ledger_memories SET memory = $2, bound_at = statement_timestamp() WHERE origin = $1`

// BindMemory binds an origin that this database has only mirrored to the memory, which signs it from now on. The
// promotion must be on record.
func (s *Signing) BindMemory(ctx context.Context, tx pgx.Tx, origin string) error {
	tag, err := tx.Exec(ctx, moveMemorySQL, origin, s.Memory)
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("%w: the database has no checkpoint of %s", ErrMemory, origin)
	}
	if err != nil {
		return fmt.Errorf("bind %s to its memory: %w", origin, err)
	}
	return nil
}

// StartOrigin starts an origin. It fails with ErrOldOrigin for a name that was used before.
func StartOrigin(ctx context.Context, tx pgx.Tx, origin string) error {
	if err := checkOrigin(origin); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, lockOriginsSQL); err != nil {
		return fmt.Errorf("lock origins: %w", err)
	}
	var known bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM ledger_origins WHERE origin = $1)`, origin).Scan(&known); err != nil {
		return fmt.Errorf("find origin: %w", err)
	}
	if known {
		return fmt.Errorf("%w: choose a name that was never used instead of %s", ErrOldOrigin, origin)
	}
	if _, err := tx.Exec(ctx, startOriginSQL, origin); err != nil {
		return fmt.Errorf("start origin: %w", err)
	}
	return nil
}
