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

	"novelgate/events/eventlog"
)

// Errors of Identify.
var (
	// ErrOrigin is returned for an invalid name of an origin.
	ErrOrigin = errors.New("not a possible origin of the ledger")
	// ErrOldOrigin is returned for an earlier origin of the ledger.
	ErrOldOrigin = errors.New("this was an earlier origin of the ledger")
)

// IdentityConfig configures the origin and the signer directory of a replica.
type IdentityConfig struct {
	// Origin is the origin to sign for. A name not used before becomes the ledger's new origin. Default: the current
	// one; in an empty database OriginPrefix, a slash and the first 8 hexadecimal digits of the log's id.
	Origin string
	// OriginPrefix begins the origin of an empty database. Required there, unless Origin is set.
	OriginPrefix string
	// Directory is the signer directory. It is made together with an origin if it does not exist. Required.
	Directory Directory
}

// Identity is the origin and the keys of a replica.
type Identity struct {
	Origin string
	// Started: this call of Identify started the origin. Previous is the current origin before the call, or "".
	Started  bool
	Previous string
	// VerifierKeys are the public keys of the directory. None: this replica does not sign, and Reason says why.
	VerifierKeys []string
	Reason       error
	Directory    Directory

	signers []note.Signer
}

const (
	lockOriginsSQL   = `LOCK TABLE ledger_origins, ledger_keys IN SHARE ROW EXCLUSIVE MODE`
	currentOriginSQL = `SELECT origin FROM ledger_origins ORDER BY ordinal DESC LIMIT 1`
	// originStateSQL reads the id of the log, the current origin with its signer directory, and whether the origin $1 is
	// known.
	originStateSQL = `SELECT log.value, coalesce(o.origin, ''), o.signer, EXISTS (SELECT FROM ledger_origins WHERE origin = $1)
FROM settings AS log LEFT JOIN ledger_origins AS o ON o.origin = (` + currentOriginSQL + `)
WHERE log.name = 'log_id'`
	// startOriginSQL starts an origin. $1: origin, $2: id of its signer directory.
	startOriginSQL = `INSERT INTO ledger_origins (ordinal, origin, signer, tree_size, started_at)
SELECT coalesce((SELECT max(ordinal) FROM ledger_origins), 0) + 1, $1, $2, tree_size, statement_timestamp() FROM ledger_state`
	addKeySQL = `INSERT INTO ledger_keys (origin, verifier_key, first_used_at) VALUES ($1, $2, statement_timestamp())
ON CONFLICT (origin, verifier_key) DO NOTHING`
)

// Identify determines the origin and the keys of this replica. It starts a new origin, which names the signer directory
// for good, and records keys. A replica without the directory of the origin is not an error: it seals and serves, and
// Reason says why it does not sign. Identify fails with ErrOrigin and ErrOldOrigin for a name that cannot be used, and
// with ErrKeyFile for an invalid key file.
func Identify(ctx context.Context, pool *pgxpool.Pool, config IdentityConfig) (*Identity, error) {
	id := &Identity{Directory: config.Directory}
	if err := errors.Join(checkOrigin(config.Origin), checkOrigin(config.OriginPrefix)); err != nil {
		return nil, err
	}
	if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return id.determine(ctx, tx, config) }); err != nil {
		return nil, fmt.Errorf("identify the ledger: %w", err)
	}
	if id.Reason != nil { // a replica that signs removes it within a second
		if _, err := pool.Exec(ctx, recordSigningErrorSQL, eventlog.ErrorText(id.Reason)); err != nil {
			return nil, fmt.Errorf("record why this replica does not sign: %w", err)
		}
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

// determine finds or starts the origin. It holds a lock, so that of two replicas that start on an empty database only
// one makes a directory and a key.
func (id *Identity) determine(ctx context.Context, tx pgx.Tx, config IdentityConfig) error {
	if _, err := tx.Exec(ctx, lockOriginsSQL); err != nil {
		return fmt.Errorf("lock origins: %w", err)
	}
	var log string
	var signer uuid.NullUUID
	var known bool
	if err := tx.QueryRow(ctx, originStateSQL, config.Origin).Scan(&log, &id.Previous, &signer, &known); err != nil {
		return fmt.Errorf("find origin: %w", err)
	}
	const digits = 8 // of the UUID, before its first hyphen
	id.Origin = cmp.Or(config.Origin, id.Previous, config.OriginPrefix+"/"+log[:digits])
	isNew := id.Origin != id.Previous
	switch {
	case isNew && config.Origin == "" && config.OriginPrefix == "":
		return fmt.Errorf("%w: it is empty", ErrOrigin)
	case isNew && known:
		return fmt.Errorf("%w: %s was followed by %s; choose a name that was never used", ErrOldOrigin, id.Origin,
			id.Previous)
	}
	directory, keys, reason := id.openDirectory(isNew, signer)
	if errors.Is(reason, ErrKeyFile) {
		return reason
	}
	id.Reason = reason // for instance a read-only directory, with which the service must start; then there are no keys
	if id.Started = isNew && reason == nil; id.Started {
		if _, err := tx.Exec(ctx, startOriginSQL, id.Origin, directory); err != nil {
			return fmt.Errorf("start origin: %w", err)
		}
	}
	return id.recordKeys(ctx, tx, keys)
}

// openDirectory returns the id and the keys of the directory. It makes the directory for a new origin; if the
// transaction fails later, the next start finds the files. For another origin it fails with ErrDirectory unless signer
// is the id.
func (id *Identity) openDirectory(isNew bool, signer uuid.NullUUID) (directory uuid.UUID, keys []key, err error) {
	if isNew {
		directory, err = id.Directory.ensure(id.Origin)
	} else {
		directory, err = id.Directory.readID()
	}
	switch {
	case !isNew && errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w: %s is none, and %s signs this origin; share that one, let the replica that has it sign, or, "+
			"if it is lost, start a new origin", ErrDirectory, id.Directory, signer.UUID)
	case err == nil && !isNew && signer.UUID != directory:
		err = otherDirectory(directory, signer)
	case err == nil:
		keys, err = id.Directory.keys()
	}
	return directory, keys, err
}

func (id *Identity) recordKeys(ctx context.Context, tx pgx.Tx, keys []key) error {
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
