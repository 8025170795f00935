package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	formats "github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Checkpoint is a signed tree size and root.
type Checkpoint struct {
	Origin   string
	Tree     tlog.Tree
	Note     []byte    // the signed note, as it is served
	SignedAt time.Time // zero when parsed from a note
}

var errCheckpoint = errors.New("not a checkpoint")

// ParseCheckpoint parses a note without verifying its signatures.
func ParseCheckpoint(signed []byte) (Checkpoint, error) {
	var body formats.Checkpoint
	if _, err := body.Unmarshal(signed); err != nil {
		return Checkpoint{}, fmt.Errorf("%w: %w", errCheckpoint, err)
	}
	const maxSize = 1 << 48
	if len(body.Hash) != tlog.HashSize || body.Size > maxSize {
		return Checkpoint{}, fmt.Errorf("%w: %d entries, a root of %d bytes", errCheckpoint, body.Size, len(body.Hash))
	}
	return Checkpoint{
		Origin: body.Origin, Note: signed, Tree: tlog.Tree{N: int64(body.Size), Hash: tlog.Hash(body.Hash)},
	}, nil
}

// ErrKey is returned for text that is not a verifier key.
var ErrKey = errors.New("not a verifier key")

// SignedBy reports whether the note has a valid signature of a key whose name is the origin.
func (c Checkpoint) SignedBy(verifierKey string) (bool, error) {
	verifier, err := note.NewVerifier(verifierKey)
	if err != nil {
		return false, fmt.Errorf("%w: %q", ErrKey, verifierKey)
	}
	_, err = note.Open(c.Note, note.VerifierList(verifier))
	return err == nil && verifier.Name() == c.Origin, nil
}

// Body returns the signed text.
func (c Checkpoint) Body() string {
	return string(formats.Checkpoint{Origin: c.Origin, Size: uint64(c.Tree.N), Hash: c.Tree.Hash[:]}.Marshal()) //nolint:gosec // never negative
}

const checkpointColumns = `origin, tree_size, root_hash, note, signed_at`

// servedSQL finds the checkpoint to serve for the current origin, with its cosignatures. This is the newest checkpoint
// with a quorum, if the checkpoint after it is less than 10 seconds old; otherwise, and without witnesses, the newest
// checkpoint. All replicas together sign about one checkpoint a second, see Signer, so the newest 16 cover this time.
const servedSQL = `SELECT c.origin, c.tree_size, c.root_hash, c.note || coalesce(w.signatures, ''), c.signed_at
FROM (
    SELECT ` + checkpointColumns + `, lead(signed_at) OVER (ORDER BY tree_size) AS replaced_at
    FROM (
        SELECT ` + checkpointColumns + ` FROM ledger_checkpoints
        WHERE origin = (` + currentOriginSQL + `) ORDER BY tree_size DESC LIMIT 16
    ) AS newest
) AS c
CROSS JOIN LATERAL (
    SELECT string_agg(signature, '' ORDER BY witness) AS signatures, coalesce(count(*) >= max(quorum), false) AS quorate
    FROM ledger_cosignatures WHERE origin = c.origin AND tree_size = c.tree_size
) AS w
WHERE c.replaced_at IS NULL OR w.quorate AND c.replaced_at > statement_timestamp() - interval '10 seconds'
ORDER BY w.quorate DESC, c.tree_size DESC LIMIT 1`

// sinceSQL lists checkpoints by size. $1: origin, $2: size to start after, $3: maximum number.
const sinceSQL = `SELECT ` + checkpointColumns + ` FROM ledger_checkpoints
WHERE origin = $1 AND tree_size > $2 ORDER BY tree_size LIMIT $3`

func scanCheckpoint(row pgx.CollectableRow) (Checkpoint, error) {
	var c Checkpoint
	var root []byte
	var signed string
	if err := row.Scan(&c.Origin, &c.Tree.N, &root, &signed, &c.SignedAt); err != nil {
		return Checkpoint{}, fmt.Errorf("scan checkpoint: %w", err)
	}
	copy(c.Tree.Hash[:], root)
	c.Note = []byte(signed)
	return c, nil
}

// UnsignedError means that the current origin has no checkpoint yet. It is an ErrNotFound.
type UnsignedError struct{ Origin string } // "" if unknown

func (e *UnsignedError) Error() string {
	return "nothing is signed yet under the origin " + cmp.Or(e.Origin, "in use")
}

// Unwrap returns ErrNotFound.
func (*UnsignedError) Unwrap() error { return ErrNotFound }

// Served returns the checkpoint to serve for the current origin, with its cosignatures: the newest one, or, for up to
// 10 seconds while witnesses cosign the one after it, an older one with a quorum. So a later call may return an older
// checkpoint. It fails with an UnsignedError before the first checkpoint.
func (s *Store) Served(ctx context.Context) (Checkpoint, error) {
	rows, _ := s.db.Query(ctx, servedSQL) // CollectExactlyOneRow returns its error
	c, err := pgx.CollectExactlyOneRow(rows, scanCheckpoint)
	if errors.Is(err, pgx.ErrNoRows) {
		return Checkpoint{}, s.unsigned(ctx)
	}
	if err != nil {
		return Checkpoint{}, fmt.Errorf("read checkpoint: %w", err)
	}
	return c, nil
}

// newestSQL finds the newest checkpoint of an origin. $1: origin.
const newestSQL = `SELECT ` + checkpointColumns + ` FROM ledger_checkpoints
WHERE origin = $1 ORDER BY tree_size DESC LIMIT 1`

// Newest returns the newest checkpoint of an origin, without cosignatures. It fails with ErrNotFound before the first
// one.
func (s *Store) Newest(ctx context.Context, origin string) (Checkpoint, error) {
	rows, _ := s.db.Query(ctx, newestSQL, origin) // CollectExactlyOneRow returns its error
	c, err := pgx.CollectExactlyOneRow(rows, scanCheckpoint)
	if errors.Is(err, pgx.ErrNoRows) {
		return Checkpoint{}, fmt.Errorf("checkpoint of %s: %w", origin, ErrNotFound)
	}
	if err != nil {
		return Checkpoint{}, fmt.Errorf("read checkpoint: %w", err)
	}
	return c, nil
}

// unsigned returns the UnsignedError of the current origin.
func (s *Store) unsigned(ctx context.Context) error {
	var e UnsignedError
	if err := s.db.QueryRow(ctx, currentOriginSQL).Scan(&e.Origin); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("read origin: %w", err)
	}
	return &e
}

// since returns up to limit checkpoints of an origin that are larger than size, sorted by size.
func (s *Store) since(ctx context.Context, origin string, size int64, limit int) ([]Checkpoint, error) {
	rows, _ := s.db.Query(ctx, sinceSQL, origin, size, limit) // CollectRows returns its error
	list, err := pgx.CollectRows(rows, scanCheckpoint)
	if err != nil {
		return nil, fmt.Errorf("read checkpoints: %w", err)
	}
	return list, nil
}

// beforeSQL finds an origin and its newest checkpoint with fewer than $2 entries. $1: origin.
const beforeSQL = `SELECT c.note FROM ledger_origins AS o
LEFT JOIN LATERAL (
    SELECT note FROM ledger_checkpoints WHERE origin = o.origin AND tree_size < $2 ORDER BY tree_size DESC LIMIT 1
) AS c ON true
WHERE o.origin = $1`

// Before returns the newest checkpoint of an origin with fewer than size entries; the zero Checkpoint if there is none.
// It fails with ErrNotFound for an unknown origin.
func (s *Store) Before(ctx context.Context, origin string, size int64) (Checkpoint, error) {
	var signed *string
	err := s.db.QueryRow(ctx, beforeSQL, origin, size).Scan(&signed)
	if errors.Is(err, pgx.ErrNoRows) {
		return Checkpoint{}, fmt.Errorf("origin: %w", ErrNotFound)
	}
	if err != nil {
		return Checkpoint{}, fmt.Errorf("read checkpoint: %w", err)
	}
	if signed == nil {
		return Checkpoint{}, nil
	}
	return ParseCheckpoint([]byte(*signed))
}

// keysSQL finds the public keys of an origin, the oldest first.
const keysSQL = `SELECT verifier_key FROM ledger_keys WHERE origin = $1 ORDER BY first_used_at, verifier_key`

// SignersOf returns the public keys that have signed a checkpoint, of those that the ledger has recorded for its
// origin, in the form of C2SP signed-note.
func (s *Store) SignersOf(ctx context.Context, c Checkpoint) ([]string, error) {
	rows, _ := s.db.Query(ctx, keysSQL, c.Origin) // CollectRows returns its error
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read verifier keys: %w", err)
	}
	var used []string
	for _, key := range all {
		if signed, _ := c.SignedBy(key); signed {
			used = append(used, key)
		}
	}
	return used, nil
}

// Extends fails with ErrForked unless the checkpoint grown has the origin of the note older, and its tree extends that
// of the note. The proof comes from the stored hashes. The signatures of the note are not verified.
func (s *Store) Extends(ctx context.Context, grown Checkpoint, older []byte) error {
	before, err := ParseCheckpoint(older)
	if err != nil {
		return err
	}
	if before.Origin != grown.Origin {
		return fmt.Errorf("%w: its origin is %s, and that of the older checkpoint %s", ErrForked, grown.Origin, before.Origin)
	}
	return Extends(grown.Tree, before.Tree, s.Hashes(ctx, grown.Tree))
}

// ErrForked is returned for a tree that does not extend one that was signed.
var ErrForked = errors.New("the ledger does not extend what was signed before")

// Extends fails with ErrForked unless the tree grown, which has these hashes, extends the tree older.
func Extends(grown, older tlog.Tree, hashes tlog.HashReader) error {
	switch {
	case older.N > grown.N:
		return fmt.Errorf("%w: it has %d entries, and %d were signed", ErrForked, grown.N, older.N)
	case older.N == grown.N:
		if older.Hash != grown.Hash {
			return fmt.Errorf("%w: its %d entries had another root when they were signed", ErrForked, grown.N)
		}
		return nil
	case older.N == 0:
		return nil
	}
	proof, err := tlog.ProveTree(grown.N, older.N, hashes)
	if err != nil {
		return fmt.Errorf("prove that the tree grew from %d to %d entries: %w", older.N, grown.N, err)
	}
	if err := tlog.CheckTree(proof, grown.N, grown.Hash, older.N, older.Hash); err != nil {
		return fmt.Errorf("%w: its first %d entries are not those that were signed: %w", ErrForked, older.N, err)
	}
	return nil
}
