package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/note"
)

// Errors of Identify.
var (
	// ErrOrigin is returned for an invalid name of an origin.
	ErrOrigin = errors.New("not a possible origin of the ledger")
	// ErrOldOrigin is returned for an earlier origin of the ledger.
	ErrOldOrigin = errors.New("this was an earlier origin of the ledger")
)

// Reasons why a replica does not sign.
var (
	errKeyElsewhere    = errors.New("the key of the ledger was made by another replica or is lost")
	errMemoryElsewhere = errors.New("the memory of the ledger is with another replica or is lost")
)

// IdentityConfig configures the origin and the keys of a replica.
type IdentityConfig struct {
	// Origin is the origin to sign for. A name not used before becomes the ledger's new origin. Default: the current
	// one; in an empty database OriginPrefix, a slash and the first 8 hexadecimal digits of the log's id.
	Origin string
	// OriginPrefix begins the origin of an empty database. Required there, unless Origin is set.
	OriginPrefix string
	// KeyFile has the private keys. If it does not exist and no key was ever used, it is created together with a memory.
	// Required.
	KeyFile string
	// Memory is the directory with the newest signed checkpoints, outside of the database. Default: DefaultMemory.
	Memory string
}

// DefaultMemory returns the path of the memory of a key file, beside it.
func DefaultMemory(keyFile string) string { return keyFile + ".memory" }

// Identity is the origin and the keys of a replica.
type Identity struct {
	Origin string
	// Started: this call of Identify started the origin. Previous is the current origin before the call, or "".
	Started  bool
	Previous string
	// VerifierKeys are the public keys of the key file. None: this replica does not sign, and Reason says why.
	VerifierKeys []string
	Reason       error
	// Memory is the directory with the newest signed checkpoints.
	Memory string

	keyMemory uuid.NullUUID // memory that the key file names
	signers   []note.Signer
}

const (
	lockOriginsSQL   = `LOCK TABLE ledger_origins, ledger_keys IN SHARE ROW EXCLUSIVE MODE`
	currentOriginSQL = `SELECT origin FROM ledger_origins ORDER BY ordinal DESC LIMIT 1`
	// originStateSQL reads the current origin, the id of the log, whether the origin $1 is known, and whether any key was
	// ever used.
	originStateSQL = `SELECT coalesce((` + currentOriginSQL + `), ''), (SELECT id::text FROM log_identity),
       EXISTS (SELECT FROM ledger_origins WHERE origin = $1), EXISTS (SELECT FROM ledger_keys)`
	startOriginSQL = `INSERT INTO ledger_origins (ordinal, origin, tree_size, started_at)
SELECT coalesce((SELECT max(ordinal) FROM ledger_origins), 0) + 1, $1, tree_size, statement_timestamp() FROM ledger_state`
	bindMemorySQL = `INSERT INTO ledger_memories (origin, memory, bound_at) VALUES ($1, $2, statement_timestamp())`
	addKeySQL     = `INSERT INTO ledger_keys (origin, verifier_key, first_used_at) VALUES ($1, $2, statement_timestamp())
ON CONFLICT (origin, verifier_key) DO NOTHING`
)

// Identify determines the origin and the keys of this replica, and records new origins, their memories, and keys. A
// missing key or memory is not an error: the replica seals and serves, and Reason says why it does not sign. Identify
// fails with ErrOrigin and ErrOldOrigin for a name that cannot be used, and with ErrKeyFile for an invalid key file.
func Identify(ctx context.Context, pool *pgxpool.Pool, config IdentityConfig) (*Identity, error) {
	id := &Identity{Memory: cmp.Or(config.Memory, DefaultMemory(config.KeyFile))}
	if err := errors.Join(checkOrigin(config.Origin), checkOrigin(config.OriginPrefix)); err != nil {
		return nil, err
	}
	if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return id.determine(ctx, tx, config) }); err != nil {
		return nil, fmt.Errorf("identify the ledger: %w", err)
	}
	return id, nil
}

// checkOrigin fails with ErrOrigin for a name with characters that an origin must not have.
func checkOrigin(origin string) error {
	if strings.ContainsFunc(origin, func(r rune) bool { return r == '+' || unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return fmt.Errorf("%w: %q has spaces, plus signs or invisible characters", ErrOrigin, origin)
	}
	return nil
}

// determine finds or creates origin, keys and memory. It holds a lock, so that only one of two replicas that start on
// an empty database creates the key.
func (id *Identity) determine(ctx context.Context, tx pgx.Tx, config IdentityConfig) error {
	if _, err := tx.Exec(ctx, lockOriginsSQL); err != nil {
		return fmt.Errorf("lock origins: %w", err)
	}
	anyKey, err := id.determineOrigin(ctx, tx, config)
	if err != nil {
		return err
	}
	keys, reason, err := id.ensureKeys(config.KeyFile, anyKey)
	if err == nil && reason == nil {
		reason, err = id.bindMemory(ctx, tx, config.KeyFile)
	}
	if id.Reason = reason; err != nil || reason != nil {
		return err
	}
	return id.recordKeys(ctx, tx, keys)
}

// determineOrigin finds the origin, and starts it if it is new. It reports whether any key was ever used.
func (id *Identity) determineOrigin(ctx context.Context, tx pgx.Tx, config IdentityConfig) (anyKey bool, err error) {
	var current, log string
	var known bool
	if err := tx.QueryRow(ctx, originStateSQL, config.Origin).Scan(&current, &log, &known, &anyKey); err != nil {
		return false, fmt.Errorf("find origin: %w", err)
	}
	const digits = 8 // of the UUID, before its first hyphen
	id.Origin, id.Previous = cmp.Or(config.Origin, current, config.OriginPrefix+"/"+log[:digits]), current
	switch {
	case id.Origin == current:
	case config.Origin == "" && config.OriginPrefix == "":
		return false, fmt.Errorf("%w: it is empty", ErrOrigin)
	case known:
		return false, fmt.Errorf("%w: %s was followed by %s; choose a name that was never used", ErrOldOrigin, id.Origin,
			current)
	default:
		if _, err := tx.Exec(ctx, startOriginSQL, id.Origin); err != nil {
			return false, fmt.Errorf("start origin: %w", err)
		}
		id.Started = true
	}
	return anyKey, nil
}

// ensureKeys loads the key file, and creates it if no key was ever used. It returns the reason why this replica has no
// keys; nil: it has keys.
func (id *Identity) ensureKeys(file string, anyKey bool) (keys []Key, reason, err error) {
	keys, err = LoadKeys(file)
	if errors.Is(err, fs.ErrNotExist) {
		if anyKey {
			return nil, fmt.Errorf("%w: copy it to %s, or make a new one with `novelgate ledger new-key`", errKeyElsewhere,
				file), nil
		}
		// If the transaction fails later, the next start finds the files.
		if _, err := AddKey(file, id.Memory, id.Origin); err != nil {
			return nil, err, nil // the service must start although the directory is read-only
		}
		keys, err = LoadKeys(file)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, err, nil
	}
	return keys, nil, err
}

// bindMemory binds the origin permanently to the memory of this replica, if the origin has no memory yet. It returns
// the reason why this memory must not sign; nil: it may.
func (id *Identity) bindMemory(ctx context.Context, tx pgx.Tx, keyFile string) (reason, err error) {
	var f facts
	if err := f.readDatabase(ctx, tx, id.Origin); err != nil {
		return nil, err
	}
	if reason = id.checkMemory(&f, keyFile); reason != nil || f.bound.Valid {
		return reason, nil
	}
	if _, err := tx.Exec(ctx, bindMemorySQL, id.Origin, f.memory); err != nil {
		return nil, fmt.Errorf("bind the origin to the memory: %w", err)
	}
	return nil, nil
}

// checkMemory adds the memory, and the memory that the key file names, to the facts. It creates a missing memory if
// memoryOfOldKey allows it. It returns the reason why the memory must not sign; nil: it may.
func (id *Identity) checkMemory(f *facts, keyFile string) (reason error) {
	var err error
	if f.keyMemory, err = memoryOfKeys(keyFile); err != nil {
		return err
	}
	id.keyMemory = f.keyMemory
	if f.memory, err = readMemoryID(id.Memory); errors.Is(err, fs.ErrNotExist) {
		f.memory, err = id.memoryOfOldKey(*f, keyFile)
	}
	if err != nil {
		return err
	}
	if err := f.readMemory(id.Memory, id.Origin); err != nil {
		return err
	}
	return f.checkBinding()
}

// memoryOfOldKey creates the memory for a key made by a version without memories, from the file KEY.checkpoint of that
// version. It does so only if neither the key nor the origin has a memory yet, and the file has a checkpoint of the
// origin that is not behind the database. All other memories are created with the key, or by
// `novelgate ledger new-memory`.
func (id *Identity) memoryOfOldKey(f facts, keyFile string) (uuid.UUID, error) {
	old, ok, err := readNote(keyFile + ".checkpoint")
	if err != nil {
		return uuid.Nil, err
	}
	allowed := ok && old.Origin == id.Origin && !f.keyMemory.Valid && !f.bound.Valid
	if allowed {
		f.remembered = &old.Tree // as the new memory will have it; f is a copy
		allowed = f.checkBinding() == nil
	}
	if !allowed {
		return uuid.Nil, fmt.Errorf("%w: %s is not a memory; point --ledger-memory at the shared directory, or let the "+
			"replica that has it sign. If the directory is lost, make one with `novelgate ledger new-memory` and start a "+
			"new origin", errMemoryElsewhere, id.Memory)
	}
	// The id comes last: a directory without it is not a memory.
	if err := errors.Join(makeLedgerDir(id.Memory), remember(id.Memory, old)); err != nil {
		return uuid.Nil, err
	}
	return ensureMemory(id.Memory)
}

func (id *Identity) recordKeys(ctx context.Context, tx pgx.Tx, keys []Key) error {
	for _, key := range keys {
		signer, verifierKey, err := key.signer(id.Origin)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, addKeySQL, id.Origin, verifierKey); err != nil {
			return fmt.Errorf("record key: %w", err)
		}
		id.signers = append(id.signers, signer)
		id.VerifierKeys = append(id.VerifierKeys, verifierKey)
	}
	return nil
}
