package httpkit

import (
	"net/url"
	"strings"

	"github.com/google/uuid"
)

// Addresses are those of novels and comments, as the commands return them.
type Addresses struct {
	public, base string
}

// NewAddresses returns the addresses of the platform at public, which has no slash at its end.
func NewAddresses(public *url.URL) Addresses {
	return Addresses{public.String(), strings.TrimSuffix(public.EscapedPath(), "/")}
}

// Base is the path of the public address: what links within the platform begin with. It is empty or begins with a
// slash.
func (a Addresses) Base() string { return a.base }

// Public is the public address, without a slash at its end.
func (a Addresses) Public() string { return a.public }

// Start is the address of the start page.
func (a Addresses) Start() string { return a.public + "/" }

// Novels is the address of the catalogue.
func (a Addresses) Novels() string { return a.public + "/novels" }

// Novel is the address of a novel.
func (a Addresses) Novel(slug string) string { return a.public + novelPath(slug) }

// Discussion is the address of a novel's discussion.
func (a Addresses) Discussion(slug string) string { return a.Novel(slug) + "/discussion" }

// Post is the address of a comment: the server finds the page it is on, the fragment the place on it.
func (a Addresses) Post(slug string, id uuid.UUID) string {
	text := id.String()
	return a.Discussion(slug) + "?post=" + text + "#post-" + text
}

// NovelPath and DiscussionPath are the same addresses for links within the platform.
func (a Addresses) NovelPath(slug string) string { return a.base + novelPath(slug) }

// DiscussionPath is described at NovelPath.
func (a Addresses) DiscussionPath(slug string) string { return a.NovelPath(slug) + "/discussion" }

func novelPath(slug string) string { return "/novels/" + url.PathEscape(slug) }
