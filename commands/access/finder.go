package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/internal/database"
)

const (
	findTimeout     = time.Second // of one query
	findAttempts    = 3           // after time-outs, each on another connection
	maxKeysPerQuery = 1000        // keys in one query
)

// finder looks up keys in groups: keys that arrive while its queries run share the next query. So a flood of guessed
// keys takes only the finder's connections. A valid key waits for at most two queries while fewer than maxKeysPerQuery
// other keys wait.
type finder struct {
	keys       *Keys
	query      query
	maxRunning int // limit of concurrent queries

	mu      sync.Mutex
	waiting []*lookUp
	running int // concurrent queries
}

// lookUp is a key that waits for a query. entry and err are set before done is closed.
type lookUp struct {
	hash  [sha256.Size]byte
	entry entry
	err   error
	done  chan struct{}
}

// find returns the entry of a key, an empty one for an unknown key. It does not join a running query, because Forget
// may have been called since that query began.
func (f *finder) find(ctx context.Context, hash [sha256.Size]byte) (entry, error) {
	l := &lookUp{hash: hash, done: make(chan struct{})}
	f.mu.Lock()
	f.waiting = append(f.waiting, l)
	if f.running < f.maxRunning {
		f.running++
		go f.work() //nolint:contextcheck // other requests wait for the same query
	}
	f.mu.Unlock()
	select {
	case <-l.done:
		return l.entry, l.err
	case <-ctx.Done():
		return entry{}, fmt.Errorf("look up key: %w", ctx.Err())
	}
}

// work runs queries until no key waits.
func (f *finder) work() {
	for {
		f.mu.Lock()
		n := min(len(f.waiting), maxKeysPerQuery)
		group := f.waiting[:n:n]
		f.waiting = f.waiting[n:]
		if n == 0 {
			f.waiting = nil
			f.running--
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		f.lookUpGroup(group)
	}
}

// lookUpGroup reads the keys of a group and completes their look-ups.
func (f *finder) lookUpGroup(group []*lookUp) {
	hashes := make([][]byte, len(group))
	for i, l := range group {
		hashes[i] = l.hash[:]
	}
	generation, until := f.keys.beginLookUp()
	var found map[[sha256.Size]byte]entry
	var err error
	for range findAttempts {
		if found, err = f.read(hashes); !errors.Is(err, context.DeadlineExceeded) && !pgconn.Timeout(err) {
			break
		}
	}
	for _, l := range group {
		l.entry = found[l.hash]
		l.entry.until = until
		if err != nil {
			l.err = fmt.Errorf("look up key: %w", err)
		}
	}
	if err == nil {
		f.keys.remember(group, generation)
	}
	for _, l := range group {
		close(l.done)
	}
}

// read returns the entries of the keys that exist.
func (f *finder) read(hashes [][]byte) (map[[sha256.Size]byte]entry, error) {
	ctx, cancel := context.WithTimeout(context.Background(), findTimeout)
	defer cancel()
	found := make(map[[sha256.Size]byte]entry, len(hashes))
	err := database.Retry(ctx, f.keys.pool, func(bool) error {
		rows, err := f.keys.pool.Query(ctx, f.query.sql, hashes)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			hash, e, err := f.query.scan(rows)
			if err != nil {
				return err
			}
			found[[sha256.Size]byte(hash)] = e
		}
		return rows.Err()
	})
	return found, err
}

// query reads the owners of the keys whose SHA-256 is in $1. Unknown and revoked keys have no row.
type query struct {
	sql  string
	scan func(row pgx.CollectableRow) (hash []byte, e entry, err error)
}

var integrationQuery = query{
	sql: `SELECT k.key_hash, k.key_id, k.expires_at, i.integration_id, i.name, i.enabled, i.can_create_novels, i.can_post,
       i.posts_per_minute, i.novels_per_minute, i.novel_updates_per_minute, i.can_import, i.lines_per_minute, i.review
FROM api_keys k JOIN integrations i USING (integration_id)
WHERE k.key_hash = ANY($1) AND k.revoked_at IS NULL`,
	scan: func(row pgx.CollectableRow) (hash []byte, e entry, err error) {
		i := &Integration{}
		e.integration = i
		err = row.Scan(&hash, &i.KeyID, &e.expiresAt, &i.IntegrationID, &i.Name, &i.Enabled,
			&i.CanCreateNovels, &i.CanPost, &i.PostsPerMinute, &i.NovelsPerMinute, &i.NovelUpdatesPerMinute,
			&i.CanImport, &i.LinesPerMinute, &i.Review)
		e.keyID, i.KeyExpiresAt = i.KeyID, e.expiresAt
		return hash, e, err
	},
}

var staffUserQuery = query{
	sql: `SELECT key_hash, key_id, expires_at, person_id, role, name
FROM person_keys
WHERE key_hash = ANY($1) AND revoked_at IS NULL`,
	scan: func(row pgx.CollectableRow) (hash []byte, e entry, err error) {
		u := &StaffUser{}
		e.staffUser = u
		err = row.Scan(&hash, &u.KeyID, &e.expiresAt, &u.ID, &u.Role, &u.Name)
		e.keyID = u.KeyID
		return hash, e, err
	},
}
