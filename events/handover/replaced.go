package handover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
	"novelgate/events/ledger/audit"
	"novelgate/internal/database"
)

// FindSuccessor asks the service at a public URL whether it continues the log of this database. That is so if the
// service has a promotion that replaces this database (see Successor), and the same first entry in its ledger.
// FindSuccessor returns that promotion, or nil.
func FindSuccessor(ctx context.Context, db database.Querier, client *http.Client, url string) (*Promotion, error) {
	theirs, err := fetchOrigins(ctx, client, url)
	if err != nil {
		return nil, err
	}
	return theirs.successor(ctx, db, client, url)
}

// successor does what FindSuccessor does, with what the service publishes.
func (theirs *Published) successor(
	ctx context.Context, db database.Querier, client *http.Client, url string,
) (*Promotion, error) {
	known, err := Known(ctx, db)
	if err != nil {
		return nil, err
	}
	p := Successor(known, theirs.Promotions)
	if p == nil {
		return nil, nil //nolint:nilnil // documented
	}
	same, err := sameFirstEntry(ctx, db, client, url)
	if err != nil || !same {
		return nil, err
	}
	return p, nil
}

// sameFirstEntry reports whether the ledger of the service at a public URL has the same first entry as that of the
// database.
func sameFirstEntry(ctx context.Context, db database.Querier, client *http.Client, url string) (bool, error) {
	tile := tlog.Tile{H: ledger.TileHeight, L: 0, N: 0, W: 1}
	ours, err := ledger.NewStore(db).Tile(ctx, tile)
	if errors.Is(err, ledger.ErrNotFound) {
		return false, nil // nothing is sealed here
	}
	if err != nil {
		return false, err
	}
	theirs, err := (&audit.Service{Client: client, URL: url + "/ledger"}).Tile(ctx, tile)
	if errors.Is(err, ledger.ErrNotFound) {
		return false, nil
	}
	return err == nil && bytes.Equal(ours, theirs), err
}

// LostFrom returns the log index of the first event that the service at a public URL lacks, because it was promoted
// without that event: the index of the first ledger entry that differs there. It fails with ErrRefused for a service
// that does not continue this log. All events must be sealed.
func LostFrom(ctx context.Context, db database.Querier, client *http.Client, url string) (int64, error) {
	published, err := fetchOrigins(ctx, client, url)
	if err != nil {
		return 0, err
	}
	p, err := published.successor(ctx, db, client, url)
	if err != nil {
		return 0, err
	}
	if p == nil {
		return 0, fmt.Errorf("%w: %s was not promoted without this database", ErrRefused, url)
	}
	store := ledger.NewStore(db)
	ours, err := store.Tree(ctx)
	if err != nil {
		return 0, err
	}
	service := &audit.Service{Client: client, URL: url + "/ledger"}
	theirs, err := published.tree(ctx, service)
	if err != nil {
		return 0, fmt.Errorf("read the ledger of %s: %w", url, err)
	}
	return ledger.CommonEntries(ours, theirs, store.Hashes(ctx, ours), audit.Hashes(ctx, service, theirs))
}

// tree returns the largest tree that a promoted service publishes: that of its checkpoint, or that of its newest
// promotion until it has signed as many entries.
func (theirs *Published) tree(ctx context.Context, service *audit.Service) (tlog.Tree, error) {
	newest := theirs.Promotions[len(theirs.Promotions)-1]
	promoted := tlog.Tree{N: newest.Entries, Hash: newest.Root}
	signed, err := service.Checkpoint(ctx)
	if errors.Is(err, ledger.ErrNotFound) {
		return promoted, nil
	}
	if err != nil {
		return tlog.Tree{}, err
	}
	c, err := ledger.ParseCheckpoint(signed)
	if err != nil || c.Tree.N < promoted.N {
		return promoted, err
	}
	return c.Tree, nil
}
