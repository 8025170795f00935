// Package auth lets callers with an API key in: it makes and checks keys ([Secret]), finds the owner of a key ([Keys]),
// and admits a request of its owner to an operation ([Callers]). A key belongs to an integration, with its capabilities
// and limits, or to a staff user.
package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"novelgate/internal/database"
)

// Each of these errors means that the request is not authenticated.
var (
	ErrMalformed = errors.New("the API key is malformed")
	ErrUnknown   = errors.New("the API key is unknown or was revoked")
	ErrExpired   = errors.New("the API key has expired")
)

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
	CanImport       bool
	LinesPerMinute  int
	Review          bool
	AuthorKey       string // for events.AuthorID
}

// StaffUser is the member of staff or the auditor whom an API key authenticates.
type StaffUser struct {
	KeyID uuid.UUID
	ID    uuid.UUID
	Role  string // principal.Staff or principal.Auditor
	Name  string
}

// Keys authenticates API keys. Create it with NewKeys.
//
// Keys are cached for half a second, so a revocation or a change of settings takes effect in every replica within a
// second. No replica tells another: a notification could be lost, and the end of the cached entry must do anyway.
type Keys struct {
	pool *pgxpool.Pool
	now  func() time.Time

	cache   *lru.Cache[[sha256.Size]byte, entry]
	lookUps singleflight.Group
	running *semaphore.Weighted // statements

	usage    sync.Mutex              // guards lastUsed
	lastUsed map[uuid.UUID]time.Time // by key; saved with one statement for many keys
}

// entry is the owner of a key: an integration, a staff user, or neither for an unknown key.
type entry struct {
	integration *Integration
	staffUser   *StaffUser
	keyID       uuid.UUID
	expiresAt   *time.Time
	until       time.Time // end of the entry's lifetime
}

const (
	// timeToLive is the lifetime of a cache entry. It bounds the time until a revocation or a change of settings holds.
	timeToLive = 500 * time.Millisecond
	maxEntries = 10_000 // guessed keys are cached, too
	// lookUpTimeout is shorter than that of a request, which so fails with the reason.
	lookUpTimeout = time.Second
)

// MaxStatements is the number of statements that Keys executes at a time, so that keys that clients guess leave the
// other connections of the pool free.
const MaxStatements = 2

// NewKeys returns Keys that reads from pool.
func NewKeys(pool *pgxpool.Pool, now func() time.Time) *Keys {
	cache, err := lru.New[[sha256.Size]byte, entry](maxEntries)
	if err != nil {
		panic(err) // maxEntries is positive
	}
	return &Keys{
		pool: pool, now: now, cache: cache, running: semaphore.NewWeighted(MaxStatements),
		lastUsed: map[uuid.UUID]time.Time{},
	}
}

// Authenticate returns the integration of a key. It fails with an error of this package, among them ErrMalformed for
// the key of a staff user, or because the database cannot be read.
func (k *Keys) Authenticate(ctx context.Context, key string) (*Integration, error) {
	e, err := k.authenticate(ctx, key, false)
	return e.integration, err
}

// AuthenticateStaffUser returns the staff user of a key. It fails as Authenticate does, with ErrMalformed for the key
// of an integration.
func (k *Keys) AuthenticateStaffUser(ctx context.Context, key string) (*StaffUser, error) {
	e, err := k.authenticate(ctx, key, true)
	return e.staffUser, err
}

func (k *Keys) authenticate(ctx context.Context, key string, isStaff bool) (entry, error) {
	secret, err := ParseKey(key)
	if err != nil {
		return entry{}, ErrMalformed
	}
	if kind := secret.Kind(); (kind == StaffKey || kind == AuditorKey) != isStaff {
		return entry{}, ErrMalformed
	}
	hash, now := secret.Hash(), k.now()
	e, ok := k.cache.Get(hash)
	if !ok || !now.Before(e.until) {
		if e, err = k.lookUp(ctx, hash, isStaff); err != nil {
			return entry{}, fmt.Errorf("look up key: %w", err)
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

// lookUp reads a key. Concurrent look-ups of a key share a query.
func (k *Keys) lookUp(ctx context.Context, hash [sha256.Size]byte, isStaff bool) (entry, error) {
	// The query has its own context, because the first of the requests that share it may be cancelled.
	//nolint:contextcheck // see above
	found := k.lookUps.DoChan(string(hash[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), lookUpTimeout)
		defer cancel()
		if err := k.running.Acquire(ctx, 1); err != nil {
			return entry{}, err
		}
		defer k.running.Release(1)
		e, until := entry{}, k.now().Add(timeToLive)
		read := k.readIntegration
		if isStaff {
			read = k.readStaffUser
		}
		err := database.Retry(ctx, k.pool, func() (err error) {
			e, err = read(ctx, hash[:])
			return err
		})
		if errors.Is(err, pgx.ErrNoRows) {
			e, err = entry{}, nil
		}
		if e.until = until; err == nil {
			k.cache.Add(hash, e)
		}
		return e, err
	})
	select {
	case result := <-found:
		e, _ := result.Val.(entry)
		return e, result.Err
	case <-ctx.Done():
		return entry{}, ctx.Err()
	}
}

const integrationSQL = `SELECT k.key_id, k.expires_at, i.integration_id, i.name, i.enabled, i.can_create_novels, i.can_post,
       i.posts_per_minute, i.novels_per_minute, i.can_import, i.lines_per_minute, i.review,
       author_key((SELECT value FROM settings WHERE name = 'author_secret'), i.integration_id)
FROM api_keys k JOIN integrations i USING (integration_id)
WHERE k.key_hash = $1 AND k.revoked_at IS NULL`

func (k *Keys) readIntegration(ctx context.Context, hash []byte) (e entry, err error) {
	i := &Integration{}
	err = k.pool.QueryRow(ctx, integrationSQL, hash).Scan(&i.KeyID, &i.KeyExpiresAt, &i.IntegrationID, &i.Name,
		&i.Enabled, &i.CanCreateNovels, &i.CanPost, &i.PostsPerMinute, &i.NovelsPerMinute,
		&i.CanImport, &i.LinesPerMinute, &i.Review, &i.AuthorKey)
	return entry{integration: i, keyID: i.KeyID, expiresAt: i.KeyExpiresAt}, err
}

const staffUserSQL = `SELECT key_id, expires_at, person_id, role, name
FROM person_keys
WHERE key_hash = $1 AND revoked_at IS NULL`

func (k *Keys) readStaffUser(ctx context.Context, hash []byte) (e entry, err error) {
	u := &StaffUser{}
	err = k.pool.QueryRow(ctx, staffUserSQL, hash).Scan(&u.KeyID, &e.expiresAt, &u.ID, &u.Role, &u.Name)
	e.staffUser, e.keyID = u, u.KeyID
	return e, err
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
	err := k.running.Acquire(ctx, 1)
	if err == nil {
		defer k.running.Release(1)
		_, err = k.pool.Exec(ctx, usageSQL, ids, times)
	}
	if err != nil {
		return fmt.Errorf("save key usage: %w", err)
	}
	return nil
}
