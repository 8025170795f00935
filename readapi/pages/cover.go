package pages

import (
	"context"
	"errors"
	"net/http"

	"github.com/gorilla/mux"

	"novelgate/internal/httpkit"
	"novelgate/readapi/covers"
)

// noCover replaces a cover that cannot be shown. It is transparent: the page shows the first letter of the title behind
// it.
const noCover = `<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>`

// covers handles GET /novels/{slug}/cover.
func (p *Pages) covers() http.Handler {
	return p.CoverReaders.Limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := p.WithTimeout(r.Context())
		defer cancel()
		picture, err := p.coverOf(ctx, mux.Vars(r)["slug"])
		caching := "public, max-age=86400"
		switch {
		case errors.Is(err, covers.ErrNoPicture), errors.Is(err, covers.ErrBusy):
			caching = "public, max-age=60"
			picture = covers.Picture{Type: "image/svg+xml", Content: []byte(noCover)}
		case err != nil:
			p.refuse(w, r, err)
			return
		}
		w.Header().Set("Cache-Control", caching)
		w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
		httpkit.Send(w, r, picture.Type, picture.Content)
	}), p.refuse)
}

// coverOf returns the cover of a public novel. It fails with covers.ErrNoPicture if there is none to proxy.
func (p *Pages) coverOf(ctx context.Context, slug string) (covers.Picture, error) {
	n, err := p.Reader.Novel(ctx, slug, nil)
	switch {
	case err != nil:
		return covers.Picture{}, err
	case n.CoverURL == "" || p.Site.Covers != ProxiedCovers:
		return covers.Picture{}, covers.ErrNoPicture
	}
	return p.Site.Proxy.Cover(ctx, n.CoverURL)
}
