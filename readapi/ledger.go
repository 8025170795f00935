package readapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/gorilla/mux"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
	"novelgate/internal/problem"
	"novelgate/internal/web"
)

// ledgerPath is the prefix of the tiled log (C2SP tlog-tiles).
const ledgerPath = "/ledger"

// Ledger serves the ledger to the public for verification.
type Ledger struct {
	*web.Kit

	Store *ledger.Store
}

// Register adds the routes of the ledger to router.
func (l *Ledger) Register(router *mux.Router) {
	// A tile of a given width, full or partial, never changes. The others may change with the next checkpoint.
	const oneSecond, forever = "public, max-age=1", "public, max-age=31536000, immutable"
	const unsigned = "Nothing was signed yet."
	const text, bytes = "text/plain; charset=utf-8", "application/octet-stream"
	for path, route := range map[string]struct {
		read               func(context.Context, *http.Request) ([]byte, error)
		mediaType, caching string
		missing            string // detail of the answer for ledger.ErrNotFound
	}{
		"/checkpoint":        {l.checkpoint, text, oneSecond, unsigned},
		"/key":               {l.key, text, oneSecond, unsigned},
		"/proof":             {l.proof, text, oneSecond, "No checkpoint covers this log index yet."},
		"/tile/{tile:[^%]+}": {l.tile, bytes, forever, "The tree has no such tile yet."},
	} {
		router.Handle(ledgerPath+path, l.Public(func(ctx context.Context, h http.Header, r *http.Request) ([]byte, error) {
			h.Set("Content-Type", route.mediaType)
			h.Set("Cache-Control", route.caching)
			h.Set("Access-Control-Allow-Origin", "*") // web pages of other sites may verify the ledger too
			found, err := route.read(ctx, r)
			if errors.Is(err, ledger.ErrNotFound) {
				err = problem.ErrNotFound.WithDetail(route.missing)
			}
			return found, err
		}, nil)).Methods(http.MethodGet, http.MethodHead)
	}
}

// checkpoint handles GET /ledger/checkpoint: the signed note of the served checkpoint.
func (l *Ledger) checkpoint(ctx context.Context, _ *http.Request) ([]byte, error) {
	c, err := l.Store.Served(ctx)
	return c.Note, err
}

// key handles GET /ledger/key: the public keys that signed the served checkpoint, one per line.
func (l *Ledger) key(ctx context.Context, _ *http.Request) ([]byte, error) {
	c, err := l.Store.Served(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := l.Store.SignersOf(ctx, c)
	return []byte(strings.Join(keys, "\n") + "\n"), err
}

// proof handles GET /ledger/proof?logIndex=…: the proof that the served checkpoint covers an entry.
func (l *Ledger) proof(ctx context.Context, r *http.Request) ([]byte, error) {
	query, err := web.ReadStrictQuery(r.URL, "logIndex")
	if err != nil {
		return nil, err
	}
	index := query.Index("logIndex")
	if index == nil {
		query.Refuse("logIndex", "is required")
	}
	if err := query.Err(); err != nil {
		return nil, err
	}
	return l.Store.Proof(ctx, *index)
}

// tile handles GET /ledger/tile/{L}/{N}[.p/{W}] and GET /ledger/tile/entries/{N}[.p/{W}].
func (l *Ledger) tile(ctx context.Context, r *http.Request) ([]byte, error) {
	tile, err := parseTile(mux.Vars(r)["tile"])
	if err != nil {
		return nil, problem.ErrNotFound.WithDetail("This is not the address of a tile.")
	}
	return l.Store.Tile(ctx, tile)
}

// parseTile parses the part of a path after /tile/. The paths of package tlog also have the height of the tiles, and
// "data" instead of "entries".
func parseTile(path string) (tlog.Tile, error) {
	if rest, ok := strings.CutPrefix(path, "entries/"); ok {
		path = "data/" + rest
	} else if strings.HasPrefix(path, "data/") {
		return tlog.Tile{}, ledger.ErrNotFound
	}
	return tlog.ParseTilePath("tile/" + strconv.Itoa(ledger.TileHeight) + "/" + path)
}
