package readapi

import (
	"cmp"
	"fmt"
	"regexp"

	"novelgate/internal/web"
)

// The sizes of pages.
const (
	defaultLimit = 20
	maxLimit     = 100

	defaultReplies = 50 // replies of one comment
)

// novelsCursors are the prefixes of cursors of lists of novels, by order. Other cursors have other prefixes: a digit
// for the history and the access log, other letters for discussions and for lists of staff and partners.
var novelsCursors = map[string]string{ByTitle: "c", ByActivity: "A", ByNewest: "N"}

// ParseCatalogue parses the parameters of a list of novels: sort, q, state, owner, genre, language, cursor, limit. The
// error of all Parse functions is a *problem.Error that names every invalid parameter.
func ParseCatalogue(q *web.Query, defaultSort string) (CatalogueParams, error) {
	c := CatalogueParams{
		Sort: cmp.Or(q.OneOf("sort", ByActivity, ByNewest, ByTitle), defaultSort),
		Text: q.Text("q"), State: q.OneOf("state", "approved", "published"), Owner: q.Text("owner"),
		Genre: q.Text("genre"), Language: q.Text("language"), Limit: q.Limit(defaultLimit, maxLimit),
	}
	if c.After = q.Cursor(novelsCursors[c.Sort]); !web.IsText(c.After) {
		q.RefuseCursor()
	}
	return c, q.Err()
}

// CatalogueCursor returns the cursor parameter of the page that starts after next; "" for none.
func CatalogueCursor(sort, next string) string {
	if next == "" {
		return ""
	}
	return web.EncodeCursor(novelsCursors[sort], next)
}

// ParseDiscussion parses the parameters of a discussion: sort (default: newest), chapter, cursor, limit, under, post.
func ParseDiscussion(slug string, q *web.Query) (DiscussionParams, error) {
	params := DiscussionParams{
		Slug: slug, Newest: q.OneOf("sort", "newest", "oldest") != "oldest", Chapter: q.Text("chapter"),
		Cursor: q.Text("cursor"), Under: q.ID("under"), Post: q.ID("post"),
	}
	limit := defaultLimit
	if params.Under.Valid {
		limit = defaultReplies
	}
	params.Limit = q.Limit(limit, maxLimit)
	if params.Chapter != "" && params.Chapter != NoChapter && !decimal.MatchString(params.Chapter) {
		q.Refuse("chapter", fmt.Sprintf("must be a decimal number or %s", NoChapter))
	}
	switch {
	case !params.Post.Valid:
	case params.Under.Valid:
		q.Refuse("post", "cannot be given together with under")
	case params.Cursor != "":
		q.Refuse("post", "cannot be given together with cursor: either says where the page begins")
	}
	return params, q.Err()
}

// decimal is the form of a chapter number: without sign and exponent. It allows at least as many digits as a partner
// may send.
var decimal = regexp.MustCompile(`^[0-9]{1,7}(\.[0-9]{1,40})?$`)
