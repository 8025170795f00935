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

// Cache-Control of the files of the ledger.
const (
	forever   = "public, max-age=31536000, immutable" // a tile of a given width, full or partial, never changes
	oneSecond = "public, max-age=1"
)

// Ledger serves the ledger to the public for verification.
type Ledger struct {
	*web.Kit

	Store *ledger.Store
}

// Register adds the routes of the ledger to router.
func (l *Ledger) Register(router *mux.Router) {
	const unsigned = "Nothing was signed yet."
	for path, route := range map[string]struct {
		read    func(context.Context, *http.Request) (file, error)
		missing string // detail of the answer for ledger.ErrNotFound
	}{
		"/checkpoint":     {l.checkpoint, unsigned},
		"/key":            {l.key, unsigned},
		"/proof":          {l.proof, "No checkpoint covers this log index yet."},
		"/tile/{tile:.+}": {l.tile, "The tree has no such tile yet."},
	} {
		router.Handle(ledgerPath+path, l.handler(route.read, route.missing)).Methods(http.MethodGet, http.MethodHead)
	}
}

// file is a response of the ledger.
type file struct {
	mediaType, caching string
	content            []byte
}

// text returns a text file that may change with the next checkpoint.
func text(content []byte) file { return file{"text/plain; charset=utf-8", oneSecond, content} }

func (l *Ledger) handler(read func(context.Context, *http.Request) (file, error), missing string) http.Handler {
	return l.Public(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := l.WithTimeout(r.Context())
		defer cancel()
		found, err := read(ctx, r)
		if errors.Is(err, ledger.ErrNotFound) {
			err = problem.ErrNotFound.WithDetail(missing)
		}
		if err != nil {
			l.Fail(w, r, err)
			return
		}
		h := w.Header()
		h.Set("Content-Type", found.mediaType)
		h.Set("Content-Length", strconv.Itoa(len(found.content)))
		h.Set("Cache-Control", found.caching)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Access-Control-Allow-Origin", "*") // web pages of other sites may verify the ledger too
		_, _ = w.Write(found.content)             // an error means that the client disconnected
	}), l.Refuse)
}

// checkpoint handles GET /ledger/checkpoint: the signed note of the served checkpoint.
func (l *Ledger) checkpoint(ctx context.Context, _ *http.Request) (file, error) {
	c, err := l.Store.Served(ctx)
	return text(c.Note), err
}

// key handles GET /ledger/key: the public keys that signed the served checkpoint, one per line.
func (l *Ledger) key(ctx context.Context, _ *http.Request) (file, error) {
	c, err := l.Store.Served(ctx)
	if err != nil {
		return file{}, err
	}
	keys, err := l.Store.SignersOf(ctx, c)
	return text([]byte(strings.Join(keys, "\n") + "\n")), err
}

// proof handles GET /ledger/proof?logIndex=…: the proof that the served checkpoint covers an entry.
func (l *Ledger) proof(ctx context.Context, r *http.Request) (file, error) {
	query, err := web.ReadStrictQuery(r.URL, "logIndex")
	if err != nil {
		return file{}, err
	}
	index := query.Index("logIndex")
	if index == nil {
		query.Refuse("logIndex", "is required")
	}
	if err := query.Err(); err != nil {
		return file{}, err
	}
	proof, err := l.Store.Proof(ctx, *index)
	return text(proof), err
}

// tile handles GET /ledger/tile/{L}/{N}[.p/{W}] and GET /ledger/tile/entries/{N}[.p/{W}].
func (l *Ledger) tile(ctx context.Context, r *http.Request) (file, error) {
	tile, err := parseTile(mux.Vars(r)["tile"])
	if err != nil {
		return file{}, problem.ErrNotFound.WithDetail("This is not the address of a tile.")
	}
	data, err := l.Store.Tile(ctx, tile)
	return file{"application/octet-stream", forever, data}, err
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
