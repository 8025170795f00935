package access

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// usage collects when keys were last used, to save many keys with one statement.
type usage struct {
	pool *pgxpool.Pool
	mu   sync.Mutex
	last map[uuid.UUID]time.Time
}

func newUsage(pool *pgxpool.Pool) *usage {
	return &usage{pool: pool, last: map[uuid.UUID]time.Time{}}
}

func (u *usage) touch(keyID uuid.UUID, at time.Time) {
	u.mu.Lock()
	u.last[keyID] = at
	u.mu.Unlock()
}

const usageSQL = `INSERT INTO api_key_use (key_id, last_used_at)
SELECT u.key_id, u.last_used_at FROM unnest($1::uuid[], $2::timestamptz[]) AS u (key_id, last_used_at) ORDER BY u.key_id
ON CONFLICT (key_id) DO UPDATE SET last_used_at = greatest(api_key_use.last_used_at, excluded.last_used_at)`

// SaveUsage stores when keys were last used. On an error these times are lost.
func (k *Keys) SaveUsage(ctx context.Context) error {
	u := k.usage
	u.mu.Lock()
	last := u.last
	u.last = map[uuid.UUID]time.Time{}
	u.mu.Unlock()
	if len(last) == 0 {
		return nil
	}
	ids, times := make([]uuid.UUID, 0, len(last)), make([]time.Time, 0, len(last))
	for id, at := range last {
		ids, times = append(ids, id), append(times, at)
	}
	if _, err := u.pool.Exec(ctx, usageSQL, ids, times); err != nil {
		return fmt.Errorf("save key usage: %w", err)
	}
	return nil
}
