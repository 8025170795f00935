package readapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/commands/problem"
	"novelgate/events/ledger"
	"novelgate/readapi/answer"
)

// ledgerPath is the prefix of the tiled log (C2SP tlog-tiles).
const ledgerPath = "/ledger"

// How long what the ledger serves may be kept.
const (
	forever = "public, max-age=31536000, immutable" // tiles of a width, full or partial, never change
	moments = "public, max-age=1"
)

// Ledger serves the ledger to whoever wants to check it.
type Ledger struct {
	Store   *ledger.Store
	Timeout time.Duration   // within which every request is answered
	Readers *answer.Readers // how many are answered at a time; nil: any number
	// Refuse answers those for whom there is no room.
	Refuse func(w http.ResponseWriter, r *http.Request, p *problem.Error)
	// Missing answers for what the ledger does not have (yet).
	Missing func(w http.ResponseWriter, r *http.Request, detail string)
	// Invalid answers for a query that makes no sense.
	Invalid func(w http.ResponseWriter, r *http.Request, refused error)
	// Failed answers when the ledger could not be read.
	Failed func(w http.ResponseWriter, r *http.Request, err error)
}

// Register adds the routes of the ledger to router.
func (l *Ledger) Register(router *mux.Router) {
	for path, handler := range map[string]http.HandlerFunc{
		"/checkpoint": l.checkpoint, "/key": l.key, "/proof": l.proof, "/tile/{tile:.+}": l.tile,
	} {
		router.Handle(ledgerPath+path, l.Readers.Limit(l.limited(handler), l.Refuse)).Methods(http.MethodGet, http.MethodHead)
	}
}

// limited makes what a handler reads end when time is up.
func (l *Ledger) limited(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), l.Timeout)
		defer cancel()
		handler(w, r.WithContext(ctx))
	}
}

// checkpoint handles GET /ledger/checkpoint: the newest signed note.
func (l *Ledger) checkpoint(w http.ResponseWriter, r *http.Request) {
	c, err := l.Store.Latest(r.Context())
	if err != nil {
		l.refuse(w, r, "Nothing was signed yet.", err)
		return
	}
	writeLedger(w, "text/plain; charset=utf-8", moments, c.Note)
}

// key handles GET /ledger/key: the public keys that the newest checkpoint is signed with, one a line.
func (l *Ledger) key(w http.ResponseWriter, r *http.Request) {
	keys, err := l.keys(r.Context())
	if err != nil {
		l.refuse(w, r, "Nothing was signed yet.", err)
		return
	}
	writeLedger(w, "text/plain; charset=utf-8", moments, []byte(strings.Join(keys, "\n")+"\n"))
}

func (l *Ledger) keys(ctx context.Context) ([]string, error) {
	c, err := l.Store.Latest(ctx)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says enough
	}
	return l.Store.VerifierKeys(ctx, c) //nolint:wrapcheck // it says enough
}

// proof handles GET /ledger/proof?logIndex=…: that the newest checkpoint covers an entry.
func (l *Ledger) proof(w http.ResponseWriter, r *http.Request) {
	query, err := problem.Parameters(r.URL, func(name string) bool { return name == "logIndex" })
	if err != nil {
		l.Invalid(w, r, err)
		return
	}
	index, err := strconv.ParseInt(query["logIndex"], 10, 64)
	if err != nil || index < 0 {
		l.Invalid(w, r,
			problem.InvalidRequest(problem.FieldError{Field: "logIndex", Message: "must be a number, 0 or greater"}))
		return
	}
	proof, err := l.Store.Proof(r.Context(), index)
	if err != nil {
		l.refuse(w, r, "No checkpoint covers this log index yet.", err)
		return
	}
	writeLedger(w, "text/plain; charset=utf-8", moments, proof)
}

// tile handles GET /ledger/tile/{L}/{N}[.p/{W}] and GET /ledger/tile/entries/{N}[.p/{W}].
func (l *Ledger) tile(w http.ResponseWriter, r *http.Request) {
	tile, err := parseTile(mux.Vars(r)["tile"])
	if err != nil {
		l.Missing(w, r, "This is not the address of a tile.")
		return
	}
	data, err := l.Store.Tile(r.Context(), tile)
	if err != nil {
		l.refuse(w, r, "The tree has no such tile yet.", err)
		return
	}
	writeLedger(w, "application/octet-stream", forever, data)
}

// parseTile reads what follows /tile/ in an address. tlog has the height in it, and calls entries data.
func parseTile(path string) (tlog.Tile, error) {
	if rest, ok := strings.CutPrefix(path, "entries/"); ok {
		path = "data/" + rest
	} else if strings.HasPrefix(path, "data/") {
		return tlog.Tile{}, ledger.ErrNotFound
	}
	return tlog.ParseTilePath("tile/" + strconv.Itoa(ledger.TileHeight) + "/" + path) //nolint:wrapcheck // nobody sees it
}

func (l *Ledger) refuse(w http.ResponseWriter, r *http.Request, missing string, err error) {
	if errors.Is(err, ledger.ErrNotFound) {
		l.Missing(w, r, missing)
		return
	}
	l.Failed(w, r, err)
}

func writeLedger(w http.ResponseWriter, mediaType, caching string, data []byte) {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.Header().Set("Cache-Control", caching)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Access-Control-Allow-Origin", "*") // it is for everybody to check, from a page too
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(data) // no HTML, says the header; a failing connection is the client's affair
}
