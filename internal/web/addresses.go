package web

import (
	"net/url"
	"strings"

	"github.com/google/uuid"
)

// Addresses makes the public addresses of pages, such as those of novels and comments in answers to commands.
type Addresses struct {
	public string // without a trailing slash
	base   string // path of public
}

// NewAddresses returns the addresses of the platform at public, which has no trailing slash.
func NewAddresses(public *url.URL) Addresses {
	return Addresses{public: public.String(), base: strings.TrimSuffix(public.EscapedPath(), "/")}
}

// Base returns the path of the public address, the prefix of links within the platform. It is empty or begins with a
// slash.
func (a Addresses) Base() string { return a.base }

// Public returns the public address, without a trailing slash.
func (a Addresses) Public() string { return a.public }

// Start returns the address of the start page.
func (a Addresses) Start() string { return a.public + "/" }

// Novels returns the address of the catalogue.
func (a Addresses) Novels() string { return a.public + "/novels" }

// Novel returns the address of a novel.
func (a Addresses) Novel(slug string) string { return a.Novels() + "/" + url.PathEscape(slug) }

// Discussion returns the address of a novel's discussion.
func (a Addresses) Discussion(slug string) string { return a.Novel(slug) + "/discussion" }

// Post returns the address of a comment: the parameter selects the page, and the fragment the place on it.
func (a Addresses) Post(slug string, id uuid.UUID) string {
	text := id.String()
	return a.Discussion(slug) + "?post=" + text + "#post-" + text
}

// NovelPath returns the address of a novel without the host, for links within the platform.
func (a Addresses) NovelPath(slug string) string { return a.base + "/novels/" + url.PathEscape(slug) }

// DiscussionPath returns the address of a novel's discussion without the host.
func (a Addresses) DiscussionPath(slug string) string { return a.NovelPath(slug) + "/discussion" }
