package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
	"novelgate/events/ledger/bundle"
)

// Service is the ledger of a running service, over HTTP. It has entries, and no events.
type Service struct {
	Client *http.Client
	URL    string // log prefix: {public URL}/ledger
}

var errStatus = errors.New("unexpected answer")

func (s *Service) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(s.URL, "/")+"/"+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", path, err)
	}
	response, err := s.Client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", path, err)
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, fmt.Errorf("fetch %s: %w", path, ledger.ErrNotFound)
	default:
		return nil, fmt.Errorf("fetch %s: %w: %s", path, errStatus, response.Status)
	}
	const most = ledger.TileWidth * (1<<16 + 2) // bytes of the largest entry bundle
	body, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", path, err)
	}
	return body, nil
}

// First implements Source.
func (*Service) First() int64 { return 0 }

// Checkpoint implements Source.
func (s *Service) Checkpoint(ctx context.Context) ([]byte, error) { return s.get(ctx, "checkpoint") }

// Keys implements Source.
func (s *Service) Keys(ctx context.Context) ([]string, error) {
	text, err := s.get(ctx, "key")
	return strings.Fields(string(text)), err
}

// Tile implements Source.
func (s *Service) Tile(ctx context.Context, tile tlog.Tile) ([]byte, error) {
	return s.get(ctx, bundle.TilePath(tile))
}

// Events implements Source.
func (*Service) Events(context.Context, int64, int, int64) ([]bundle.Event, error) {
	return nil, ErrEntriesOnly
}
