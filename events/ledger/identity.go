package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/note"
)

// Errors of Identify.
var (
	// ErrOrigin is returned for a name that cannot be an origin.
	ErrOrigin = errors.New("not a possible origin of the ledger")
	// ErrOldOrigin is returned for an origin that the ledger has left.
	ErrOldOrigin = errors.New("the ledger has left this origin")
)

// errKeyElsewhere is why a replica does not sign.
var errKeyElsewhere = errors.New("the key of the ledger was made by another replica or is lost")

// IdentityConfig says under which name and with which keys a replica signs.
type IdentityConfig struct {
	// Origin to sign under. One that the database does not know is started, openly. Default: the one in use, or DefaultOrigin.
	Origin string
	// DefaultOrigin is what an empty database takes. Required.
	DefaultOrigin string
	// KeyFile has the private keys. If it does not exist and no key was ever used, one is made. Required.
	KeyFile string
}

// Identity is what a replica signs as.
type Identity struct {
	Origin string
	// Started says that this call started the origin; Previous is the one in use before, if there was one.
	Started  bool
	Previous string
	// VerifierKeys are the public keys that belong to the private ones. None: this replica does not sign, and Reason says why.
	VerifierKeys []string
	Reason       error
	// Memory is the file in which the replica remembers outside of the database what was signed.
	Memory string

	signers []note.Signer
}

const (
	lockOriginsSQL   = `LOCK TABLE ledger_origins, ledger_keys IN SHARE ROW EXCLUSIVE MODE`
	currentOriginSQL = `SELECT origin FROM ledger_origins ORDER BY ordinal DESC LIMIT 1`
	knownOriginSQL   = `SELECT EXISTS (SELECT FROM ledger_origins WHERE origin = $1)`
	startOriginSQL   = `INSERT INTO ledger_origins (ordinal, origin, tree_size, started_at)
SELECT coalesce((SELECT max(ordinal) FROM ledger_origins), 0) + 1, $1, tree_size, statement_timestamp() FROM ledger_state`
	anyKeySQL = `SELECT EXISTS (SELECT FROM ledger_keys)`
	addKeySQL = `INSERT INTO ledger_keys (origin, verifier_key, first_used_at) VALUES ($1, $2, statement_timestamp())
ON CONFLICT (origin, verifier_key) DO NOTHING`
)

// Identify finds out as what this replica signs, and puts new origins and keys on record. A replica that cannot have the
// key is no error: it seals and serves, and Reason says why it does not sign. It fails with ErrOrigin and ErrOldOrigin for
// a name that cannot be taken, and with ErrKeyFile for a file that is there and is none.
func Identify(ctx context.Context, pool *pgxpool.Pool, config IdentityConfig) (*Identity, error) {
	id := &Identity{Memory: config.KeyFile + ".checkpoint"}
	for _, origin := range []string{config.Origin, config.DefaultOrigin} {
		if origin != "" && strings.ContainsFunc(origin, func(r rune) bool { return r == '+' || unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
			return nil, fmt.Errorf("%w: %q has spaces, plus signs or invisible characters", ErrOrigin, origin)
		}
	}
	if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return id.take(ctx, tx, config) }); err != nil {
		return nil, fmt.Errorf("identify the ledger: %w", err)
	}
	return id, nil
}

// take runs under a lock: of two replicas that start on an empty database, one makes the key.
func (id *Identity) take(ctx context.Context, tx pgx.Tx, config IdentityConfig) error {
	if _, err := tx.Exec(ctx, lockOriginsSQL); err != nil {
		return fmt.Errorf("lock origins: %w", err)
	}
	if err := id.takeOrigin(ctx, tx, config); err != nil {
		return err
	}
	keys, err := LoadKeys(config.KeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		var anyKey bool
		if err := tx.QueryRow(ctx, anyKeySQL).Scan(&anyKey); err != nil {
			return fmt.Errorf("look for keys: %w", err)
		}
		if anyKey {
			id.Reason = fmt.Errorf("%w: copy it to %s, or make a new one with `novelgate ledger new-key`", errKeyElsewhere, config.KeyFile)
			return nil
		}
		// If the transaction fails after this, the next start finds the file.
		if _, err := AddKey(config.KeyFile, id.Origin); err != nil {
			id.Reason = err
			return nil //nolint:nilerr // a read-only directory must not keep the service from starting
		}
		keys, err = LoadKeys(config.KeyFile)
	}
	if errors.Is(err, fs.ErrPermission) {
		id.Reason = err
		return nil
	}
	if err != nil {
		return err
	}
	return id.takeKeys(ctx, tx, keys)
}

func (id *Identity) takeOrigin(ctx context.Context, tx pgx.Tx, config IdentityConfig) error {
	var current string
	err := tx.QueryRow(ctx, currentOriginSQL).Scan(&current)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("find origin: %w", err)
	}
	id.Origin, id.Previous = config.Origin, current
	if id.Origin == "" {
		id.Origin = current
	}
	if id.Origin == "" {
		id.Origin = config.DefaultOrigin
	}
	if id.Origin == "" {
		return fmt.Errorf("%w: it is empty", ErrOrigin)
	}
	if id.Origin == current {
		return nil
	}
	var known bool
	if err := tx.QueryRow(ctx, knownOriginSQL, id.Origin).Scan(&known); err != nil {
		return fmt.Errorf("look for origin: %w", err)
	}
	if known {
		return fmt.Errorf("%w: %s was followed by %s; an origin is never taken up again", ErrOldOrigin, id.Origin, current)
	}
	if _, err := tx.Exec(ctx, startOriginSQL, id.Origin); err != nil {
		return fmt.Errorf("start origin: %w", err)
	}
	id.Started = true
	return nil
}

func (id *Identity) takeKeys(ctx context.Context, tx pgx.Tx, keys []Key) error {
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

// ReadableByOthers reports whether others than its owner can open a key file.
func ReadableByOthers(file string) bool {
	const others = 0o077
	info, err := os.Stat(file)
	return err == nil && info.Mode().Perm()&others != 0
}
