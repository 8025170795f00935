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
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/database"
)

const (
	findTimeout  = time.Second // for one query
	findAttempts = 3           // that may time out, each on another connection
	findAtOnce   = 1000        // keys in one query
)

// finder looks up keys in groups: those that come while its queries are under way share the next query. So a flood of
// guessed keys takes no more than its connections, and a good key among them waits for two queries, not for each guess
// before it.
type finder struct {
	pool    *pgxpool.Pool
	query   query
	queries int // under way at most

	mu      sync.Mutex
	waiting []*lookUp
	running int
}

// lookUp is a key that waits for a query. After done is closed, entry and err hold.
type lookUp struct {
	hash  [sha256.Size]byte
	entry entry
	err   error
	done  chan struct{}
}

// find returns the entry of a key, an empty one when there is no such key.
func (f *finder) find(hash [sha256.Size]byte) (entry, error) {
	l := &lookUp{hash: hash, done: make(chan struct{})}
	f.mu.Lock()
	f.waiting = append(f.waiting, l)
	if f.running < f.queries {
		f.running++
		go f.work()
	}
	f.mu.Unlock()
	<-l.done
	return l.entry, l.err
}

// work sends queries until no key waits.
func (f *finder) work() {
	for {
		f.mu.Lock()
		n := min(len(f.waiting), findAtOnce)
		group := f.waiting[:n:n]
		f.waiting = f.waiting[n:]
		if n == 0 {
			f.waiting = nil
			f.running--
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		f.ask(group)
	}
}

// ask looks up a group.
func (f *finder) ask(group []*lookUp) {
	hashes := make([][]byte, len(group))
	for i, l := range group {
		hashes[i] = l.hash[:]
	}
	var found map[[sha256.Size]byte]entry
	var err error
	for range findAttempts {
		if found, err = f.read(hashes); !errors.Is(err, context.DeadlineExceeded) && !pgconn.Timeout(err) {
			break
		}
	}
	for _, l := range group {
		l.entry, l.err = found[l.hash], err
		if err != nil {
			l.err = fmt.Errorf("look up key: %w", err)
		}
		close(l.done)
	}
}

// read returns the entries of those keys that exist.
func (f *finder) read(hashes [][]byte) (map[[sha256.Size]byte]entry, error) {
	ctx, cancel := context.WithTimeout(context.Background(), findTimeout)
	defer cancel()
	found := make(map[[sha256.Size]byte]entry, len(hashes))
	err := database.Retry(ctx, f.pool, func(bool) error {
		rows, err := f.pool.Query(ctx, f.query.sql, hashes)
		if err != nil {
			return err //nolint:wrapcheck // below
		}
		_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
			hash, e, err := f.query.scan(row)
			if err == nil {
				found[[sha256.Size]byte(hash)] = e
			}
			return struct{}{}, err
		})
		return err
	})
	return found, err
}
