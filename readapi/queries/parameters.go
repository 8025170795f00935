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

	defaultReplies = 50 // of one comment
)

// novelsCursor begins the cursors of lists of novels, and no others: those of the history begin with a digit, those of
// a discussion and of staff with other letters.
const novelsCursor = "c"

// ParseCatalogue reads the parameters of a list of novels: q, state, owner, cursor, limit. As with the functions below,
// the error is a *problem.Error that names every wrong parameter.
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

// CatalogueCursor is the cursor parameter of the page that starts after a place; "" for none.
func CatalogueCursor(next string) string {
	if next == "" {
		return ""
	}
	return httpkit.EncodeCursor(novelsCursor, next)
}

// ParseNovel reads the parameters of a novel: asOf. It fails with ErrNotFound when no novel can have the slug.
func ParseNovel(slug string, q *httpkit.Query) (asOf *time.Time, err error) {
	if !httpkit.IsText(slug) {
		return nil, ErrNotFound
	}
	asOf = q.Time("asOf")
	return asOf, q.Err() //nolint:wrapcheck // already a problem
}

// ParseDiscussion reads the parameters of a discussion: sort (newest unless it is oldest), chapter, cursor, limit,
// under, post, asOf. It fails with ErrNotFound when no novel can have the slug.
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

// decimal is what a chapter number may look like: no sign, no exponent, as many digits as a delivery may have.
var decimal = regexp.MustCompile(`^[0-9]{1,7}(\.[0-9]{1,40})?$`)

// ParseID reads the identifier of a comment in its one form. It fails with ErrNotFound.
func ParseID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != len(id.String()) {
		return uuid.Nil, ErrNotFound
	}
	return id, nil
}

// Problem says what the errors of this package mean to a client; nil: err is none of them.
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
