// Package access finds out who sent a request: from the API key to the integration behind it and what that may do.
//
// What was read is kept in memory for less than a second, so a revocation or a change of settings holds everywhere
// within a second even if its notification is lost; Forget, called on notifications, makes it immediate.
package access

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/singleflight"

	"novelgate/internal/apikey"
	"novelgate/internal/database"
)

// Refusals. They all mean: this request is not authenticated.
var (
	ErrMalformed = errors.New("the API key is malformed")
	ErrUnknown   = errors.New("the API key is unknown or was revoked")
	ErrExpired   = errors.New("the API key has expired")
)

// Channel is the NOTIFY channel on which staff commands say that an integration or a key has changed.
const Channel = "novelgate_access"

// timeToLive is how long a key's standing is believed without asking again.
const timeToLive = 500 * time.Millisecond

// maxEntries bounds the memory that guessed keys can take.
const maxEntries = 10_000

// Principal is an integration, as its key opens it.
type Principal struct {
	KeyID           uuid.UUID
	IntegrationID   uuid.UUID
	Name            string
	Enabled         bool
	CanCreateNovels bool
	CanPost         bool
	PostsPerMinute  int
	NovelsPerMinute int
	Review          bool
	expiresAt       *time.Time
}

const findKeySQL = `SELECT k.key_id, k.expires_at, i.integration_id, i.name, i.enabled, i.can_create_novels, i.can_post,
       i.posts_per_minute, i.novels_per_minute, i.review
FROM api_keys k JOIN integrations i USING (integration_id)
WHERE k.key_hash = $1 AND k.revoked_at IS NULL`

// entry is what is remembered of a key; a nil principal means that there is no such key.
type entry struct {
	principal *Principal
	until     time.Time
}

// Keys authenticates API keys. Create it with New.
type Keys struct {
	pool  *pgxpool.Pool
	now   func() time.Time
	group singleflight.Group
	usage *usage

	mu         sync.RWMutex
	entries    map[[sha256.Size]byte]entry
	generation uint64 // counts Forget: a look-up that began before it is not remembered
}

// New returns a Keys that reads from pool.
func New(pool *pgxpool.Pool, now func() time.Time) *Keys {
	return &Keys{pool: pool, now: now, entries: map[[sha256.Size]byte]entry{}, usage: newUsage(pool)}
}

// Authenticate returns whose key this is. It fails with a refusal of this package, or with a database error.
func (k *Keys) Authenticate(ctx context.Context, key string) (*Principal, error) {
	secret, err := apikey.Parse(key)
	if err != nil || secret.Kind() != apikey.Partner {
		return nil, ErrMalformed
	}
	hash := secret.Hash()
	now := k.now()
	k.mu.RLock()
	e, ok := k.entries[hash]
	k.mu.RUnlock()
	if !ok || !now.Before(e.until) {
		if e, err = k.lookUp(ctx, hash); err != nil {
			return nil, err
		}
	}
	switch {
	case e.principal == nil:
		return nil, ErrUnknown
	case e.principal.expiresAt != nil && !now.Before(*e.principal.expiresAt):
		return nil, ErrExpired
	}
	k.usage.touch(e.principal.KeyID, now)
	return e.principal, nil
}

// lookUp asks the database, once for all requests that wait for the same key. A request that comes after Forget does
// not wait for a look-up that began before it: that may have read what was to be forgotten.
func (k *Keys) lookUp(ctx context.Context, hash [sha256.Size]byte) (entry, error) {
	k.mu.RLock()
	generation := k.generation
	k.mu.RUnlock()
	flight := binary.BigEndian.AppendUint64(hash[:], generation)
	found := k.group.DoChan(string(flight), func() (any, error) {
		// Others wait for the answer too: the first one's going away must not fail them.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		return k.read(ctx, hash, generation)
	})
	select {
	case result := <-found:
		e, _ := result.Val.(entry)
		return e, result.Err
	case <-ctx.Done():
		return entry{}, fmt.Errorf("look up key: %w", ctx.Err())
	}
}

func (k *Keys) read(ctx context.Context, hash [sha256.Size]byte, generation uint64) (entry, error) {
	e := entry{until: k.now().Add(timeToLive)}
	p := &Principal{}
	err := database.Retry(ctx, k.pool, func(bool) error {
		return k.pool.QueryRow(ctx, findKeySQL, hash[:]).Scan(&p.KeyID, &p.expiresAt, &p.IntegrationID, &p.Name, &p.Enabled,
			&p.CanCreateNovels, &p.CanPost, &p.PostsPerMinute, &p.NovelsPerMinute, &p.Review)
	})
	switch {
	case err == nil:
		e.principal = p
	case !errors.Is(err, pgx.ErrNoRows):
		return entry{}, fmt.Errorf("look up key: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.generation == generation {
		if len(k.entries) >= maxEntries {
			clear(k.entries)
		}
		k.entries[hash] = e
	}
	return e, nil
}

// Forget makes the next request of every key ask the database.
func (k *Keys) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.generation++
	clear(k.entries)
}
