package pages

import (
	"maps"
	"net/url"
)

// withParameter returns a path with the parameters of query, of which one is set; an empty value removes it.
func withParameter(path string, query url.Values, name, value string) string {
	changed := url.Values{}
	maps.Copy(changed, query)
	if changed.Set(name, value); value == "" {
		changed.Del(name)
	}
	return address(path, changed)
}

// copyParameters copies the named parameters that are not empty.
func copyParameters(to, from url.Values, names ...string) {
	for _, name := range names {
		if value := from.Get(name); value != "" {
			to.Set(name, value)
		}
	}
}

func address(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// links makes the links of a discussion page to other parts of the discussion.
type links struct {
	path string
	kept url.Values // parameters of the page that links may keep: sort, chapter, limit, under
}

func newLinks(path string, query url.Values) links {
	l := links{path, url.Values{}}
	copyParameters(l.kept, query, "sort", "chapter", "limit", "under")
	if l.kept.Has("under") {
		l.kept.Del("chapter") // a page of replies has replies on all chapters
	}
	return l
}

// with returns the address with one parameter changed. Only a link with a cursor keeps under, which selects a page of
// replies, because the cursor belongs to that page.
func (l links) with(name, value string) string {
	query := maps.Clone(l.kept)
	if name != "cursor" {
		query.Del("under")
	}
	return withParameter(l.path, query, name, value)
}

// post returns the address of a comment.
func (l links) post(id string) string { return l.path + "?post=" + id + "#post-" + id }

// repliesTo returns the address of the replies to a top-level comment, starting at a cursor; "" is the first reply.
func (l links) repliesTo(id, cursor string) string {
	query := url.Values{"under": {id}}
	copyParameters(query, l.kept, "sort")
	return withParameter(l.path, query, "cursor", cursor)
}
