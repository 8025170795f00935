package queries

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/google/uuid"

	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// The sizes of pages.
const (
	DefaultLimit = 20
	MaxLimit     = 100

	defaultReplies = 50 // replies of one comment
)

// novelsCursor is the prefix of cursors of lists of novels. Other cursors have other prefixes: a digit for the history,
// other letters for discussions and staff.
const novelsCursor = "c"

// ParseCatalogue parses the parameters of a list of novels: q, state, owner, cursor, limit. The error of all Parse
// functions is a *problem.Error that names every invalid parameter.
func ParseCatalogue(q *httpkit.Query) (CatalogueParams, error) {
	c := CatalogueParams{
		Text: q.Text("q"), State: q.OneOf("state", "approved", "published"), Owner: q.Text("owner"),
		After: q.Cursor(novelsCursor), Limit: q.Limit(DefaultLimit, MaxLimit),
	}
	if !httpkit.IsText(c.After) {
		q.RefuseCursor()
	}
	return c, q.Err() //nolint:wrapcheck // already a problem
}

// CatalogueCursor returns the cursor parameter of the page that starts after next; "" for none.
func CatalogueCursor(next string) string {
	if next == "" {
		return ""
	}
	return httpkit.EncodeCursor(novelsCursor, next)
}

// ParseNovel parses the parameter of a novel: asOf. It fails with ErrNotFound for an invalid slug.
func ParseNovel(slug string, q *httpkit.Query) (asOf *time.Time, err error) {
	if !httpkit.IsText(slug) {
		return nil, ErrNotFound
	}
	asOf = q.Time("asOf")
	return asOf, q.Err() //nolint:wrapcheck // already a problem
}

// ParseDiscussion parses the parameters of a discussion: sort (default: newest), chapter, cursor, limit, under, post,
// asOf. It fails with ErrNotFound for an invalid slug.
func ParseDiscussion(slug string, q *httpkit.Query) (DiscussionParams, error) {
	if !httpkit.IsText(slug) {
		return DiscussionParams{}, ErrNotFound
	}
	params := DiscussionParams{
		Slug: slug, Newest: q.OneOf("sort", "newest", "oldest") != "oldest", Chapter: q.Text("chapter"),
		Cursor: q.Text("cursor"), Under: q.ID("under"), Post: q.ID("post"), AsOf: q.Time("asOf"),
	}
	standard := DefaultLimit
	if params.Under.Valid {
		standard = defaultReplies
	}
	params.Limit = q.Limit(standard, MaxLimit)
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
	return params, q.Err() //nolint:wrapcheck // already a problem
}

// decimal is the form of a chapter number: no sign, no exponent, and at least as many digits as in a delivery.
var decimal = regexp.MustCompile(`^[0-9]{1,7}(\.[0-9]{1,40})?$`)

// ParseID parses the identifier of a comment in its canonical form. It fails with ErrNotFound.
func ParseID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != len(id.String()) {
		return uuid.Nil, ErrNotFound
	}
	return id, nil
}

// Problem maps the errors of this package to problems. It returns nil for any other error.
func Problem(err error) *problem.Error {
	switch {
	case errors.Is(err, ErrNotFound):
		return problem.NotFound()
	case errors.Is(err, ErrGone):
		return problem.Gone()
	case errors.Is(err, ErrCursor):
		return problem.InvalidField("cursor", ErrCursor.Error())
	default:
		return nil
	}
}
