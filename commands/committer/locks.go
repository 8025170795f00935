package committer

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/jackc/pgx/v5"
)

// A lock wait in the locked path is a queue of writers on one contended title, not a collision.
const lockedTimeoutSQL = `SET LOCAL lock_timeout = '500ms'`

// $1: lock numbers in ascending order, so that two batches do not deadlock.
const lockTitlesSQL = `SELECT pg_advisory_xact_lock(n) FROM unnest($1::bigint[]) AS n`

// lockTitles makes the transaction wait for others that retry on the same titles.
func lockTitles(ctx context.Context, tx pgx.Tx, jobs []*job) error {
	numbers := make([]int64, 0, len(jobs))
	for _, j := range jobs {
		hash := fnv.New64a()
		hash.Write([]byte(j.folded))
		numbers = append(numbers, int64(hash.Sum64())) //nolint:gosec // any 64 bits will do
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	if _, err := tx.Exec(ctx, lockedTimeoutSQL); err != nil {
		return fmt.Errorf("set lock time-out: %w", err)
	}
	if _, err := tx.Exec(ctx, lockTitlesSQL, numbers); err != nil {
		return fmt.Errorf("lock titles: %w", err)
	}
	return nil
}
