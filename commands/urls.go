package commands

import (
	"net/url"

	"github.com/google/uuid"
)

// novelURL is the public address of a novel.
func (a *API) novelURL(slug string) string { return a.PublicURL + "/novels/" + url.PathEscape(slug) }

// postURL is the public address of a comment: the server finds the page it is on, the fragment the place on it.
func (a *API) postURL(slug string, postID uuid.UUID) string {
	id := postID.String()
	return a.novelURL(slug) + "/discussion?post=" + id + "#post-" + id
}
