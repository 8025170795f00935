package commands

import (
	"net/url"

	"github.com/google/uuid"
)

// novelURL is the public address of a novel.
func (a *API) novelURL(slug string) string { return NovelURL(a.PublicURL, slug) }

// NovelURL is the public address of a novel on the platform at public.
func NovelURL(public *url.URL, slug string) string {
	return public.String() + "/novels/" + url.PathEscape(slug)
}

// postURL is the public address of a comment: the server finds the page it is on, the fragment the place on it.
func (a *API) postURL(slug string, postID uuid.UUID) string {
	id := postID.String()
	return a.novelURL(slug) + "/discussion?post=" + id + "#post-" + id
}
