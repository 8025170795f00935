package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/eventlog"
	"novelgate/events/ledger"
	"novelgate/internal/database"
)

// Source is a source of history: a database, bundles, or a running service.
type Source interface {
	// Checkpoint returns the signed note of a checkpoint, and Keys its verifier keys.
	Checkpoint(ctx context.Context) ([]byte, error)
	Keys(ctx context.Context) ([]string, error)
	// First returns the log index of the first event in this source.
	First() int64
	// Tile returns a tile, or an entry bundle for level -1. It fails with ledger.ErrNotFound, and with ErrEventsOnly if
	// the source has no entries of its own.
	Tile(ctx context.Context, tile tlog.Tile) ([]byte, error)
	// Events returns the events stored for count log indexes from first on, below size. It fails with ErrEntriesOnly if
	// the source has only entries.
	Events(ctx context.Context, first int64, count int, size int64) ([]StoredEvent, error)
}

// StoredEvent is an event as a source has it.
type StoredEvent struct {
	eventlog.Row
	// Broken is the error of an event that cannot be read from a bundle; the Row is empty then.
	Broken error
}

// Missing data of a source.
var (
	ErrEntriesOnly = errors.New("the source has entries only")
	ErrEventsOnly  = errors.New("the source has events only")
)

// Database is the database of the service. Create it with NewDatabase.
type Database struct{ store *ledger.Store }

// NewDatabase returns the source for a database, which needs the settings of database.OpenHistory.
func NewDatabase(db database.Querier) *Database {
	return &Database{store: ledger.NewStore(db)}
}

// First implements Source.
func (*Database) First() int64 { return 0 }

// Checkpoint implements Source.
func (d *Database) Checkpoint(ctx context.Context) ([]byte, error) {
	c, err := d.store.Served(ctx)
	return c.Note, err
}

// Keys implements Source.
func (d *Database) Keys(ctx context.Context) ([]string, error) {
	c, err := d.store.Served(ctx)
	if err != nil {
		return nil, err
	}
	return d.store.SignersOf(ctx, c)
}

// Tile implements Source.
func (d *Database) Tile(ctx context.Context, tile tlog.Tile) ([]byte, error) {
	if tile.L < 0 {
		return nil, ErrEventsOnly
	}
	return d.store.Tile(ctx, tile)
}

// Events implements Source.
func (d *Database) Events(ctx context.Context, first int64, count int, _ int64) ([]StoredEvent, error) {
	list := make([]StoredEvent, 0, count)
	for row, err := range d.store.Events(ctx, first, first+int64(count)) {
		if err != nil {
			return nil, fmt.Errorf("read events from log index %d: %w", first, err)
		}
		list = append(list, StoredEvent{Row: row.Clone()})
	}
	return list, nil
}

// Service is the ledger of a running service, over HTTP. It has only entries.
type Service struct {
	Client *http.Client
	URL    string // log prefix: {public URL}/ledger
}

var errStatus = errors.New("unexpected answer")

// getTimeout limits one request for a file of the ledger.
const getTimeout = time.Minute

func (s *Service) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(s.URL, "/")+"/"+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", path, err)
	}
	response, err := s.Client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", path, err)
	}
	defer response.Body.Close() //nolint:errcheck // the body was read
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, fmt.Errorf("fetch %s: %w", path, ledger.ErrNotFound)
	default:
		return nil, fmt.Errorf("fetch %s: %w: %s", path, errStatus, response.Status)
	}
	const maxBody = ledger.TileWidth * (1<<16 + 2) // bytes of the largest entry bundle
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", path, err)
	}
	return body, nil
}

// First implements Source.
func (*Service) First() int64 { return 0 }

// Checkpoint implements Source.
func (s *Service) Checkpoint(ctx context.Context) ([]byte, error) {
	signed, err := s.get(ctx, "checkpoint")
	if errors.Is(err, ledger.ErrNotFound) {
		err = fmt.Errorf("%s: %w", s.URL, &ledger.UnsignedError{})
	}
	return signed, err
}

// Keys implements Source.
func (s *Service) Keys(ctx context.Context) ([]string, error) {
	text, err := s.get(ctx, "key")
	return strings.Fields(string(text)), err
}

// Tile implements Source.
func (s *Service) Tile(ctx context.Context, tile tlog.Tile) ([]byte, error) {
	return s.get(ctx, tilePath(tile))
}

// Events implements Source.
func (*Service) Events(context.Context, int64, int, int64) ([]StoredEvent, error) {
	return nil, ErrEntriesOnly
}
