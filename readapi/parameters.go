package readapi

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// The sizes of pages.
const (
	defaultLimit = 20
	maxLimit     = 100

	defaultReplies = 50 // replies of one comment
)

// novelsCursors are the prefixes of cursors of lists of novels, by order. Other cursors have other prefixes: a digit
// for the history, other letters for discussions and staff.
var novelsCursors = map[string]string{ByTitle: "c", ByActivity: "A", ByNewest: "N"}

// ParseCatalogue parses the parameters of a list of novels: sort, q, state, owner, genre, language, cursor, limit. The
// error of all Parse functions is a *problem.Error that names every invalid parameter.
func ParseCatalogue(q *httpkit.Query, standard string) (CatalogueParams, error) {
	c := CatalogueParams{
		Sort: cmp.Or(q.OneOf("sort", ByActivity, ByNewest, ByTitle), standard),
		Text: q.Text("q"), State: q.OneOf("state", "approved", "published"), Owner: q.Text("owner"),
		Genre: q.Text("genre"), Language: q.Text("language"), Limit: q.Limit(defaultLimit, maxLimit),
	}
	c.After = q.Cursor(novelsCursors[c.Sort])
	ok := httpkit.IsText(c.After)
	if c.Sort != ByTitle {
		_, ok = decodeNovelKey(c.After)
	}
	if !ok {
		q.RefuseCursor()
	}
	return c, q.Err()
}

// CatalogueCursor returns the cursor parameter of the page that starts after next; "" for none.
func CatalogueCursor(sort, next string) string {
	if next == "" {
		return ""
	}
	return httpkit.EncodeCursor(novelsCursors[sort], next)
}

// ParseDiscussion parses the parameters of a discussion: sort (default: newest), chapter, cursor, limit, under, post,
// asOf.
func ParseDiscussion(slug string, q *httpkit.Query) (DiscussionParams, error) {
	params := DiscussionParams{
		Slug: slug, Newest: q.OneOf("sort", "newest", "oldest") != "oldest", Chapter: q.Text("chapter"),
		Cursor: q.Text("cursor"), Under: q.ID("under"), Post: q.ID("post"), AsOf: q.Time("asOf"),
	}
	standard := defaultLimit
	if params.Under.Valid {
		standard = defaultReplies
	}
	params.Limit = q.Limit(standard, maxLimit)
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

// decimal is the form of a chapter number: no sign, no exponent, and at least as many digits as in a delivery.
var decimal = regexp.MustCompile(`^[0-9]{1,7}(\.[0-9]{1,40})?$`)

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

// ErrCursor refuses a text that is not a cursor of a page.
var ErrCursor = errors.New("is not a cursor of a page")

// place is the place of a comment, at which a page starts, inclusive. Top-level comments are sorted by (at, id), where
// at is the time of writing; replies by (at, depth, id), where at is the time of receipt.
type place struct {
	at    pgtype.Timestamptz
	depth int32
	id    uuid.UUID
}

// The ends of every order.
var (
	lowest  = place{at: pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}}
	highest = place{at: pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}, id: uuid.Max}
)

func placeOf(at time.Time, depth int, id uuid.UUID) place {
	return place{at: pgtype.Timestamptz{Time: at, Valid: true}, depth: int32(depth), id: id} //nolint:gosec // read from an integer of the database
}

// beside returns the place right after p, or right before it. Times are whole microseconds.
func (p place) beside(after bool) place {
	step, wrapped := byte(1), byte(0)
	if !after {
		step, wrapped = 255, 255
	}
	for i := len(p.id) - 1; i >= 0; i-- {
		p.id[i] += step
		if p.id[i] != wrapped {
			return p
		}
	}
	move := time.Microsecond
	if !after {
		move = -move
	}
	p.at.Time = p.at.Time.Add(move)
	return p
}

// Kinds of cursor. In those of top-level comments the depth is the number of the comment; see numbering.
const (
	onward   = 'n' // top-level comments after one, in the requested order
	backward = 'p' // top-level comments before one
	replies  = 'r' // replies after one
)

const placeLength = 8 + 4 + 16

func encodeCursor(kind byte, at time.Time, depth int, id uuid.UUID) string {
	b := make([]byte, 0, placeLength)
	b = binary.BigEndian.AppendUint64(b, uint64(at.UnixMicro()))
	b = binary.BigEndian.AppendUint32(b, uint32(depth)) //nolint:gosec // never negative
	return httpkit.EncodeCursor(string(kind), string(append(b, id[:]...)))
}

func decodeCursor(text string) (kind byte, p place, err error) {
	decoded, ok := httpkit.DecodeCursor("", text)
	if !ok || len(decoded) != 1+placeLength {
		return 0, place{}, ErrCursor
	}
	kind, b := decoded[0], []byte(decoded[1:])
	at := time.UnixMicro(int64(binary.BigEndian.Uint64(b))).UTC() //nolint:gosec // back and forth
	if at.Year() < earliestYear || at.Year() > latestYear {
		return 0, place{}, ErrCursor // outside the range of comments, and possibly of the database
	}
	return kind, placeOf(at, int(int32(binary.BigEndian.Uint32(b[8:]))), uuid.UUID(b[12:])), nil //nolint:gosec // back and forth
}

const (
	earliestYear = -1
	latestYear   = 10_000
)
