package question

import (
	"encoding/base64"
	"net/url"
	"strings"
	"time"

	"novelgate/readapi/reading"
)

// Catalogue reads the parameters of a list of novels: q, state, owner, cursor, limit.
func Catalogue(query url.Values) (reading.Catalogue, error) {
	v := &values{Values: query}
	c := reading.Catalogue{
		Text: v.text("q"), State: v.oneOf("state", "approved", "published"), Owner: v.text("owner"), Limit: v.limit(),
	}
	if cursor := v.text("cursor"); cursor != "" {
		decoded, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
		after, ofNovels := strings.CutPrefix(string(decoded), novelsCursor)
		if err != nil || !ofNovels || after == "" || !isText(after) {
			v.refuse("cursor", reading.ErrCursor.Error())
		}
		c.After = after
	}
	return c, v.err()
}

// novelsCursor begins the cursors of lists of novels, and no others: those of the history begin with a digit, those of
// a discussion and of staff with other letters.
const novelsCursor = "c"

// CatalogueCursor is the cursor parameter of the page that starts after a place; "" for none.
func CatalogueCursor(next string) string {
	if next == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(novelsCursor + next))
}

// Novel reads the parameters of a novel: asOf. It fails with reading.ErrNotFound when no novel can have the slug.
func Novel(slug string, query url.Values) (asOf *time.Time, err error) {
	if !isText(slug) {
		return nil, reading.ErrNotFound
	}
	v := &values{Values: query}
	asOf = v.asOf()
	return asOf, v.err()
}

// Discussion reads the parameters of a discussion: sort (newest unless it is oldest), chapter, cursor, limit, under,
// post, asOf. It fails with reading.ErrNotFound when no novel can have the slug.
func Discussion(slug string, query url.Values) (reading.Question, error) {
	if !isText(slug) {
		return reading.Question{}, reading.ErrNotFound
	}
	v := &values{Values: query}
	q := reading.Question{
		Slug: slug, Newest: v.oneOf("sort", "newest", "oldest") != "oldest", Chapter: v.chapter(), Cursor: v.text("cursor"),
		Limit: v.limit(),
		Under: v.id("under"), Post: v.id("post"), AsOf: v.asOf(),
	}
	if q.Under.Valid && v.text("limit") == "" {
		q.Limit = defaultReplies
	}
	switch {
	case !q.Post.Valid:
	case q.Under.Valid:
		v.refuse("post", "cannot be given together with under")
	case q.Cursor != "":
		v.refuse("post", "cannot be given together with cursor: either says where the page begins")
	}
	return q, v.err()
}
