package pages

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/mux"

	"novelgate/readapi"
)

//go:embed assets/*
var assetFiles embed.FS

// asset is a file whose name contains a digest of its content, so that it can be cached forever.
type asset struct {
	name    string        // style.1a2b3c4d5e6f.css
	content func() []byte // unpacks a compressed file at the first call
}

// newAsset returns the asset of a file such as style.css.
func newAsset(file string, content []byte) asset {
	stem, extension, _ := strings.Cut(file, ".")
	return asset{stem + "." + shortDigest(content) + "." + extension, func() []byte { return content }}
}

// shortDigest returns 12 hexadecimal digits that change with the content.
func shortDigest(content []byte) string {
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:6])
}

// assets are the embedded files by their names without digest and without .gz.
var assets = loadAssets()

func loadAssets() map[string]asset {
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic(err) // impossible: the files are embedded
	}
	loaded := map[string]asset{}
	for _, entry := range entries {
		content, err := assetFiles.ReadFile("assets/" + entry.Name())
		if err != nil {
			panic(err) // likewise
		}
		name, packed := strings.CutSuffix(entry.Name(), ".gz")
		a := newAsset(name, content)
		if packed {
			a.content = sync.OnceValue(func() []byte { return unpack(content) })
		}
		loaded[name] = a
	}
	return loaded
}

func unpack(packed []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic(err) // likewise
	}
	content, err := io.ReadAll(r)
	if err != nil {
		panic(err) // likewise
	}
	return content
}

// assetPath returns the path of an asset, with the digest.
func (p *Pages) assetPath(name string) string {
	return p.Addresses.Base() + "/assets/" + assets[name].name
}

// asset handles GET /assets/{name}. During a roll-out a page of another version may request another digest: it gets
// this version's file, without caching.
func (p *Pages) asset(w http.ResponseWriter, r *http.Request) {
	name := mux.Vars(r)["name"]
	parts := strings.Split(name, ".")
	known, ok := assets[parts[0]+"."+parts[len(parts)-1]]
	if p.Site.Logo != nil && parts[0] == "logo" {
		known, ok = p.Site.Logo.asset, true
	}
	if len(parts) != 3 || !ok {
		p.refuse(w, r, readapi.ErrNotFound)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	if name == known.name {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(known.name)))
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox") // an SVG is a document
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Etag", `W/"`+known.name+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(known.content()))
}
