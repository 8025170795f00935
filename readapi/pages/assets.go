package pages

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"

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
	digest := sha256.Sum256(content)
	stem, extension, _ := strings.Cut(file, ".")
	return asset{stem + "." + hex.EncodeToString(digest[:6]) + "." + extension, func() []byte { return content }}
}

// assets are the embedded files by their names without digest and without .gz.
var assets = func() map[string]asset {
	loaded := map[string]asset{}
	entries := must(assetFiles.ReadDir("assets"))
	for _, entry := range entries {
		content := must(assetFiles.ReadFile("assets/" + entry.Name()))
		name, packed := strings.CutSuffix(entry.Name(), ".gz")
		a := newAsset(name, content)
		if packed {
			a.content = sync.OnceValue(func() []byte { return must(io.ReadAll(must(gzip.NewReader(bytes.NewReader(content))))) })
		}
		loaded[name] = a
	}
	return loaded
}()

// must is for embedded files, which are always there and well formed.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Style returns the style sheet of the pages.
func Style() []byte { return assets["style.css"].content() }

// MaxLogo is the maximum size of a logo, in bytes.
const MaxLogo = 256 << 10

// Logo is the picture in the header, in place of the name. It is served as an asset, so a browser that opens an SVG
// runs none of its scripts.
type Logo struct{ asset asset }

// NewLogo returns a logo with the content of an SVG or PNG file.
func NewLogo(content []byte) (*Logo, error) {
	switch {
	case len(content) > MaxLogo:
		return nil, errors.New("the picture must have at most 256 KiB")
	case http.DetectContentType(content) == "image/png":
		return &Logo{newAsset("logo.png", content)}, nil
	case bytes.Contains(content, []byte("<svg")):
		return &Logo{newAsset("logo.svg", content)}, nil
	default:
		return nil, errors.New("the picture must be an SVG or PNG file")
	}
}

// assetPath returns the path of an asset, with the digest.
func (p *Pages) assetPath(name string) string {
	return p.Reader.Addresses.Base() + "/assets/" + assets[name].name
}

// asset handles GET /assets/{name}. During a roll-out a page of another version may request another digest: it gets
// this version's file, without caching.
func (p *Pages) asset(_ context.Context, h http.Header, r *http.Request) ([]byte, error) {
	name := mux.Vars(r)["name"]
	parts := strings.Split(name, ".")
	known, ok := assets[parts[0]+"."+parts[len(parts)-1]]
	if p.Site.Logo != nil && parts[0] == "logo" {
		known, ok = p.Site.Logo.asset, true
	}
	if len(parts) != 3 || !ok {
		return nil, readapi.ErrNotFound
	}
	h.Set("Cache-Control", "no-cache")
	if name == known.name {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox") // an SVG is a document
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(known.name)))
	return known.content(), nil
}
