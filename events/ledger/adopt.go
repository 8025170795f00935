package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// adoptOriginSQL starts the origin of another service, unless it is known. $1: origin.
	adoptOriginSQL = startOriginSQL + `
WHERE NOT EXISTS (SELECT FROM ledger_origins WHERE origin = $1)`
	// adoptMemorySQL binds the origin to the zero memory, so that no replica of this database signs for it. $1: origin.
	adoptMemorySQL = `INSERT INTO ledger_memories (origin, memory, bound_at)
VALUES ($1, '00000000-0000-0000-0000-000000000000', statement_timestamp()) ON CONFLICT (origin) DO NOTHING`
	// adoptCheckpointSQL stores a checkpoint if it is larger than all others of its origin. $1: origin, $2: size,
	// $3: root, $4: note.
	adoptCheckpointSQL = `INSERT INTO ledger_checkpoints (origin, tree_size, previous_size, root_hash, note, memory, signed_at)
SELECT $1, $2, last.size, $3, $4, m.memory, statement_timestamp()
FROM (SELECT max(tree_size) AS size FROM ledger_checkpoints WHERE origin = $1) AS last, ledger_memories AS m
WHERE m.origin = $1 AND (last.size IS NULL OR last.size < $2)`
)

// Adopt stores a checkpoint of another service over the same tree, so that it is served, and those of the keys that
// have signed it. It returns false while the tree of this database is smaller than that of the checkpoint. It fails
// with ErrForked unless the tree of this database extends that of the checkpoint.
func Adopt(ctx context.Context, pool *pgxpool.Pool, c Checkpoint, keys []string) (bool, error) {
	store := NewStore(pool)
	grown, err := store.Tree(ctx)
	if err != nil || grown.N < c.Tree.N {
		return false, err
	}
	if err := Extends(grown, c.Tree, store.Hashes(ctx, grown)); err != nil {
		return false, err
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		// Not in the batch, which would prepare its INSERTs first, and so lock their tables before this statement.
		if _, err := tx.Exec(ctx, lockOriginsSQL); err != nil {
			return err
		}
		var batch pgx.Batch
		batch.Queue(adoptOriginSQL, c.Origin)
		batch.Queue(adoptMemorySQL, c.Origin)
		for _, key := range keys {
			if signed, err := c.SignedBy(key); err != nil {
				return err
			} else if signed {
				batch.Queue(addKeySQL, c.Origin, key)
			}
		}
		batch.Queue(adoptCheckpointSQL, c.Origin, c.Tree.N, c.Tree.Hash[:], string(c.Note))
		return tx.SendBatch(ctx, &batch).Close()
	})
	if err != nil {
		return false, fmt.Errorf("adopt a checkpoint over %d entries: %w", c.Tree.N, err)
	}
	return true, nil
}
