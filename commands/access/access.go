// Package access finds out who sent a request: from the API key to the integration behind it and what that may do, or
// to the member of staff or the auditor whose key it is.
//
// What was read is kept in memory for less than a second, so a revocation or a change of settings holds everywhere
// within a second even if its notification is lost; Forget, called on notifications, makes it immediate. What is not in
// memory is looked up in groups, so that guesses, however many, take few connections and nobody waits for each of them.
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
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/singleflight"

	"novelgate/aggregates/person"
	"novelgate/internal/apikey"
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
	// NovelUpdatesPerMinute is nil when updates are not limited.
	NovelUpdatesPerMinute *int
	Review                bool
}

// Roles of a Person.
const (
	RoleStaff   = person.Staff
	RoleAuditor = person.Auditor
)

// Person is a member of the host platform's staff or an auditor, as their key opens it.
type Person struct {
	KeyID    uuid.UUID
	PersonID uuid.UUID
	Role     string // RoleStaff or RoleAuditor
	Name     string
}

// entry is what is remembered of a key. It belongs to a principal or to a person; to neither when there is no such key.
type entry struct {
	principal *Principal
	person    *Person
	keyID     uuid.UUID
	expiresAt *time.Time
	until     time.Time // how long it is believed
}

// Keys authenticates API keys. Create it with New.
type Keys struct {
	principals *finder
	persons    *finder
	now        func() time.Time
	group      singleflight.Group
	usage      *usage

	mu         sync.RWMutex
	entries    map[[sha256.Size]byte]entry
	generation uint64 // counts Forget: a look-up that began before it is not remembered
}

// New returns a Keys that reads from pool, over three connections at most.
func New(pool *pgxpool.Pool, now func() time.Time) *Keys {
	return &Keys{
		principals: &finder{pool: pool, query: principals, queries: 2},
		persons:    &finder{pool: pool, query: persons, queries: 1},
		now:        now, entries: map[[sha256.Size]byte]entry{}, usage: newUsage(pool),
	}
}

// Authenticate returns which integration's key this is. It fails with a refusal of this package, or with a database
// error. The key of a person is malformed here.
func (k *Keys) Authenticate(ctx context.Context, key string) (*Principal, error) {
	e, err := k.authenticate(ctx, key, k.principals, apikey.Partner, apikey.Partner)
	return e.principal, err
}

// AuthenticatePerson returns which person's key this is. It fails as Authenticate does. The key of an integration is
// malformed here.
func (k *Keys) AuthenticatePerson(ctx context.Context, key string) (*Person, error) {
	e, err := k.authenticate(ctx, key, k.persons, apikey.Staff, apikey.Auditor)
	return e.person, err
}

// authenticate returns the entry of a key of kind one or other; none, when it refuses.
func (k *Keys) authenticate(ctx context.Context, key string, find *finder, one, other apikey.Kind) (entry, error) {
	secret, err := apikey.Parse(key)
	if err != nil || secret.Kind() != one && secret.Kind() != other {
		return entry{}, ErrMalformed
	}
	hash := secret.Hash()
	now := k.now()
	k.mu.RLock()
	e, ok := k.entries[hash]
	k.mu.RUnlock()
	if !ok || !now.Before(e.until) {
		if e, err = k.lookUp(ctx, hash, find); err != nil {
			return entry{}, err
		}
	}
	switch {
	case e.principal == nil && e.person == nil:
		return entry{}, ErrUnknown
	case e.expiresAt != nil && !now.Before(*e.expiresAt):
		return entry{}, ErrExpired
	}
	k.usage.touch(e.keyID, now)
	return e, nil
}

// lookUp asks the database, once for all requests that wait for the same key. A request that comes after Forget does
// not wait for a look-up that began before it: that may have read what was to be forgotten.
func (k *Keys) lookUp(ctx context.Context, hash [sha256.Size]byte, find *finder) (entry, error) {
	k.mu.RLock()
	generation := k.generation
	k.mu.RUnlock()
	flight := binary.BigEndian.AppendUint64(hash[:], generation)
	found := k.group.DoChan(string(flight), func() (any, error) { //nolint:contextcheck // others wait for the answer, too, when the first one goes away
		return k.read(hash, find, generation)
	})
	select {
	case result := <-found:
		e, _ := result.Val.(entry)
		return e, result.Err
	case <-ctx.Done():
		return entry{}, fmt.Errorf("look up key: %w", ctx.Err())
	}
}

func (k *Keys) read(hash [sha256.Size]byte, find *finder, generation uint64) (entry, error) {
	until := k.now().Add(timeToLive)
	e, err := find.find(hash)
	if err != nil {
		return entry{}, err
	}
	e.until = until
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
