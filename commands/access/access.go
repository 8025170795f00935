// Package access authenticates API keys. A key belongs to an integration, with its capabilities and limits, or to a
// staff user.
//
// Keys are cached for less than a second, so a revocation or a change of settings takes effect in every replica within
// a second even if its notification is lost. Forget, called on notifications, clears the cache. Keys that are not in
// the cache are looked up in batches, so a flood of guessed keys takes few connections and hardly delays other
// requests.
package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/apikey"
)

// Refusals. Each one means that the request is not authenticated.
var (
	ErrMalformed = errors.New("the API key is malformed")
	ErrUnknown   = errors.New("the API key is unknown or was revoked")
	ErrExpired   = errors.New("the API key has expired")
)

// Channel is the NOTIFY channel for changes of integrations and keys.
const Channel = "novelgate_access"

// timeToLive is the lifetime of a cache entry.
const timeToLive = 500 * time.Millisecond

// maxEntries limits the cache, because guessed keys are cached too.
const maxEntries = 10_000

// Integration is the integration that an API key authenticates.
type Integration struct {
	KeyID           uuid.UUID
	KeyExpiresAt    *time.Time // nil: never
	IntegrationID   uuid.UUID
	Name            string
	Enabled         bool
	CanCreateNovels bool
	CanPost         bool
	PostsPerMinute  int
	NovelsPerMinute int
	// NovelUpdatesPerMinute is nil for no limit.
	NovelUpdatesPerMinute *int
	CanImport             bool
	LinesPerMinute        int
	Review                bool
}

// StaffUser is the staff user that an API key authenticates.
type StaffUser struct {
	KeyID uuid.UUID
	ID    uuid.UUID
	Role  string // principal.Staff or principal.Auditor
	Name  string
}

// entry is the cache entry of a key. It has an integration or a staff user, or neither for an unknown key.
type entry struct {
	integration *Integration
	staffUser   *StaffUser
	keyID       uuid.UUID
	expiresAt   *time.Time
	until       time.Time // end of the entry's lifetime
}

// Keys authenticates API keys. Create it with New.
type Keys struct {
	integrations *finder
	staffUsers   *finder
	now          func() time.Time
	pool         *pgxpool.Pool

	usage    sync.Mutex              // guards lastUsed
	lastUsed map[uuid.UUID]time.Time // by key; saved with one statement for many keys

	mu         sync.RWMutex
	entries    map[[sha256.Size]byte]entry
	generation uint64 // counts calls of Forget; the result of a look-up that began before is not cached
}

// New returns a Keys that reads from pool over at most three connections.
func New(pool *pgxpool.Pool, now func() time.Time) *Keys {
	k := &Keys{now: now, pool: pool, entries: map[[sha256.Size]byte]entry{}, lastUsed: map[uuid.UUID]time.Time{}}
	k.integrations = &finder{keys: k, query: integrationQuery, maxRunning: 2}
	k.staffUsers = &finder{keys: k, query: staffUserQuery, maxRunning: 1}
	return k
}

// Authenticate returns the integration of a key. It fails with a refusal of this package or with a database error. It
// refuses the key of a staff user with ErrMalformed.
func (k *Keys) Authenticate(ctx context.Context, key string) (*Integration, error) {
	e, err := k.authenticate(ctx, key, k.integrations, apikey.Partner, apikey.Sandbox)
	return e.integration, err
}

// AuthenticateStaffUser returns the staff user of a key. It fails as Authenticate does. It refuses the key of an
// integration with ErrMalformed.
func (k *Keys) AuthenticateStaffUser(ctx context.Context, key string) (*StaffUser, error) {
	e, err := k.authenticate(ctx, key, k.staffUsers, apikey.Staff, apikey.Auditor)
	return e.staffUser, err
}

// authenticate returns the entry of a valid key. It refuses a key that has neither of the two kinds with ErrMalformed.
func (k *Keys) authenticate(ctx context.Context, key string, find *finder, kind, orKind apikey.Kind) (entry, error) {
	secret, err := apikey.Parse(key)
	if err != nil || secret.Kind() != kind && secret.Kind() != orKind {
		return entry{}, ErrMalformed
	}
	hash := secret.Hash()
	now := k.now()
	k.mu.RLock()
	e, ok := k.entries[hash]
	k.mu.RUnlock()
	if !ok || !now.Before(e.until) {
		if e, err = find.find(ctx, hash); err != nil {
			return entry{}, err
		}
	}
	switch {
	case e.integration == nil && e.staffUser == nil:
		return entry{}, ErrUnknown
	case e.expiresAt != nil && !now.Before(*e.expiresAt):
		return entry{}, ErrExpired
	}
	k.usage.Lock()
	k.lastUsed[e.keyID] = now
	k.usage.Unlock()
	return e, nil
}

// beginLookUp returns the generation to pass to remember, and the expiry of the entries that the look-up finds.
func (k *Keys) beginLookUp() (generation uint64, until time.Time) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.generation, k.now().Add(timeToLive)
}

// remember caches the entries of a group. It caches none if Forget was called since the look-up began, because then
// they may be stale.
func (k *Keys) remember(group []*lookUp, generation uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.generation != generation {
		return
	}
	if len(k.entries)+len(group) > maxEntries {
		clear(k.entries)
	}
	for _, l := range group {
		k.entries[l.hash] = l.entry
	}
}

// Forget clears the cache.
func (k *Keys) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.generation++
	clear(k.entries)
}

const usageSQL = `INSERT INTO api_key_use (key_id, last_used_at)
SELECT u.key_id, u.last_used_at FROM unnest($1::uuid[], $2::timestamptz[]) AS u (key_id, last_used_at) ORDER BY u.key_id
ON CONFLICT (key_id) DO UPDATE SET last_used_at = greatest(api_key_use.last_used_at, excluded.last_used_at)`

// SaveUsage stores when keys were last used. On an error these times are lost.
func (k *Keys) SaveUsage(ctx context.Context) error {
	k.usage.Lock()
	last := k.lastUsed
	k.lastUsed = map[uuid.UUID]time.Time{}
	k.usage.Unlock()
	if len(last) == 0 {
		return nil
	}
	ids, times := make([]uuid.UUID, 0, len(last)), make([]time.Time, 0, len(last))
	for id, at := range last {
		ids, times = append(ids, id), append(times, at)
	}
	if _, err := k.pool.Exec(ctx, usageSQL, ids, times); err != nil {
		return fmt.Errorf("save key usage: %w", err)
	}
	return nil
}
