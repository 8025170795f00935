package readapi

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/aggregates/novel"
	"novelgate/internal/title"
	"novelgate/internal/web"
)

// Host is the owner of the novels that the host platform publishes.
const Host = "host"

// The orders of a list of novels.
const (
	ByTitle    = "title"    // ignoring case, accents and punctuation
	ByActivity = "activity" // latest comment first, to the minute; then the novels without comments, newest first
	ByNewest   = "newest"
)

// CatalogueParams selects novels. With only Sort and Limit it is the first page of all novels.
type CatalogueParams struct {
	Sort     string // ByTitle, ByActivity or ByNewest
	Text     string // words, or parts of words, in the title or the author, in any order
	State    string // "approved" or "published"; "" for both
	Owner    string // name of a partner platform, ignoring case, or Host; "" for all
	Genre    string // exactly; "" for all
	Language string // ignoring case; "" for all
	Cursor   string // Next of the previous page
	Limit    int    // 1 or more
	// MaxExamined is the maximum number of novels to examine with a filter. Default: 20,000, for a bounded cost in a
	// catalogue of any size.
	MaxExamined int
}

// The sizes of pages.
const (
	defaultLimit = 20
	maxLimit     = 100
)

// ParseCatalogue parses the parameters of a list of novels: sort, q, state, owner, genre, language, cursor, limit. The
// error is a *problem.Error that names every invalid parameter.
func ParseCatalogue(q *web.Query, defaultSort string) (CatalogueParams, error) {
	return CatalogueParams{
		Sort: cmp.Or(q.OneOf("sort", ByActivity, ByNewest, ByTitle), defaultSort),
		Text: q.Text("q"), State: q.OneOf("state", "approved", "published"), Owner: q.Text("owner"),
		Genre: q.Text("genre"), Language: q.Text("language"), Cursor: q.Text("cursor"),
		Limit: q.Limit(defaultLimit, maxLimit),
	}, q.Err()
}

// Filtered reports whether the list leaves out novels.
func (c *CatalogueParams) Filtered() bool {
	return c.Text != "" || c.State != "" || c.Owner != "" || c.Genre != "" || c.Language != ""
}

// owner returns the owner as the statements take it: nil for any owner, and "" for the host platform.
func (c *CatalogueParams) owner() *string {
	switch c.Owner {
	case "":
		return nil
	case Host:
		return new(string)
	default:
		return new(cmp.Or(title.Fold(c.Owner), c.Owner)) // "" is the host platform
	}
}

// CataloguePage is one page of a list of novels.
type CataloguePage struct {
	Novels []Novel `json:"items"`
	// Next is the Cursor of the next page; "" on the last page. A page that is not the last one may have fewer novels than
	// Limit.
	Next Text `json:"nextCursor"`
}

// maxCandidates is the maximum number of matching novels to find by an index and then sort. More are so frequent that
// reading the list in its order fills a page soon.
const maxCandidates = 1000

// CandidatesStatement returns the statement that finds the novels that a filter may select, and its arguments; "" if no
// index helps. The statement returns NULL if there are more than maxCandidates. An unknown owner gives the facet NULL,
// which no novel has. The join names novels, so that PostgreSQL locks the table before the statement gets its snapshot
// (see novels_with_facets in migrations/00005_projections.sql).
func CandidatesStatement(c CatalogueParams) (sql string, args []any) {
	words, facets := strings.Fields(title.Search(c.Text)), []string{}
	for _, word := range words {
		for characters := []rune(word); len(characters) > 1; characters = characters[1:] {
			facets = append(facets, string(characters[:2]))
		}
	}
	if c.Genre != "" {
		facets = append(facets, "genre:"+c.Genre)
	}
	if c.Language != "" {
		facets = append(facets, "language:"+title.Fold(c.Language))
	}
	if len(facets) == 0 && c.Owner == "" {
		return "", nil
	}
	return `SELECT novels_with_facets($1::text[]
    || CASE WHEN $4::text = '' THEN ARRAY['owner:']
            WHEN $4 <> '' THEN ARRAY['owner:' || (SELECT o.integration_id FROM integrations o
                                                  WHERE o.folded_name = $4)::text]
            ELSE '{}' END, $2, $3)
FROM (SELECT) AS k LEFT JOIN novels n ON false`, []any{facets, words, maxCandidates, c.owner()}
}

//go:embed novels.sql
var novelsSQL string

// listOrder is an order of the list, as novels.sql takes it.
type listOrder struct {
	cursor         string // prefix of cursors, which no other list has
	table, columns string // of the ordered table
	after, order   string
	first          []string // the key before all novels: novel_id, k1 and k2, as text
}

var listOrders = map[string]listOrder{
	ByTitle: {
		"c", "novels", `split_part(t.search, E'\n', 1) AS k1, NULL::text AS k2`,
		"(s.k1, s.novel_id) > ($2::text, $1::uuid) AND $3::text IS NULL", "s.k1, s.novel_id",
		[]string{uuid.Nil.String(), ""},
	},
	ByActivity: {
		"A", "novel_activity", "t.posted_at AS k1, t.created_at AS k2",
		"(s.k1, s.k2, s.novel_id) < ($2::timestamptz, $3::timestamptz, $1::uuid)",
		"s.k1 DESC, s.k2 DESC, s.novel_id DESC",
		[]string{uuid.Max.String(), "infinity", "infinity"},
	},
	ByNewest: {
		"N", "novel_activity", "t.created_at AS k1, NULL::text AS k2",
		"(s.k1, s.novel_id) < ($2::timestamptz, $1::uuid) AND $3::text IS NULL", "s.k1 DESC, s.novel_id DESC",
		[]string{uuid.Max.String(), "infinity"},
	},
}

// NovelsStatement returns the statement of a list of novels and its arguments. If candidates is not nil, it lists only
// these. It fails with ErrCursor.
func NovelsStatement(c CatalogueParams, candidates []uuid.UUID) (sql string, args []any, err error) {
	o := listOrders[c.Sort]
	key := o.first
	if c.Cursor != "" {
		after, ok := web.DecodeCursor(o.cursor, c.Cursor)
		key = strings.Split(after, "\n")
		if _, err := uuid.Parse(key[0]); err != nil || !ok || !web.IsText(after) || len(key) != len(o.first) {
			return "", nil, ErrCursor
		}
	}
	var second, state *string
	var examined *int
	if len(key) > 2 { //nolint:mnd // the key has a third part
		second = &key[2]
	}
	if c.State != "" {
		state = &c.State
	}
	if c.Filtered() && candidates == nil {
		examined = new(cmp.Or(c.MaxExamined, 20_000))
	}
	args = []any{
		key[0], key[1], second, examined, c.Limit + 1, state, strings.Fields(title.Search(c.Text)), c.owner(), c.Genre,
		title.Fold(c.Language),
	}
	from := o.table + " t"
	if candidates != nil {
		// LATERAL and OFFSET 0 make PostgreSQL look up each candidate.
		from = "unnest($11::uuid[]) AS f (novel_id) CROSS JOIN LATERAL (SELECT a.* FROM " + o.table +
			" a WHERE a.novel_id = f.novel_id OFFSET 0) AS t"
		args = append(args, candidates)
	}
	return strings.NewReplacer(":source", "(SELECT t.novel_id, "+o.columns+" FROM "+from+")", ":after", o.after,
		":order", o.order, ":last", strings.ReplaceAll(o.order, "s.", "n.")).Replace(novelsSQL), args, nil
}

// catalogueBytes is the size at which a page of novels is full. It is enough for a hundred novels with a synopsis of a
// few sentences.
const catalogueBytes = 256 << 10

// Novels lists public novels. The lists come from projections, about a millisecond late. It fails with ErrCursor.
func (r *Reader) Novels(ctx context.Context, c CatalogueParams) (CataloguePage, error) {
	var candidates []uuid.UUID
	if sql, args := CandidatesStatement(c); sql != "" {
		var err error
		if candidates, err = queryOne(ctx, r.DB, pgx.RowTo[[]uuid.UUID], sql, args...); err != nil {
			return CataloguePage{}, fmt.Errorf("find novels: %w", err)
		}
	}
	sql, args, err := NovelsStatement(c, candidates)
	if err != nil {
		return CataloguePage{}, err
	}
	found := CataloguePage{Novels: []Novel{}}
	var last, reached string // keys of the last novel of the page, and of the last one examined
	further := false         // more novels were found than fit on the page
	rows, err := r.DB.Query(ctx, sql, args...)
	for size := 0; err == nil && rows.Next(); {
		if further = len(found.Novels) == c.Limit || size >= catalogueBytes; further {
			break
		}
		var id uuid.NullUUID
		var key string
		var n Novel
		var slug, name, state pgtype.Text
		var details pgtype.DriverBytes // not copied
		err = rows.Scan(&reached, &key, &id, &slug, &name, &state, &n.Platform, &details, &n.Posts, &n.LastPost)
		if err != nil || !id.Valid { // a row without a novel
			continue
		}
		n.ID, n.Slug, n.Title, n.State = id.UUID, slug.String, name.String, novel.State(state.String)
		err = n.complete(r.Addresses, details)
		found.Novels, last, size = append(found.Novels, n), key, size+len(details)
	}
	if rows != nil {
		rows.Close()
		err = cmp.Or(err, rows.Err())
	}
	refused := new(pgconn.PgError)
	switch {
	case err == nil:
	case c.Cursor != "" && errors.As(err, &refused) && strings.HasPrefix(refused.Code, "22"): // data exception
		return CataloguePage{}, ErrCursor
	default:
		return CataloguePage{}, fmt.Errorf("list novels: %w", err)
	}
	if further {
		reached = last
	}
	if reached != "" {
		found.Next = Text(web.EncodeCursor(listOrders[c.Sort].cursor, reached))
	}
	return found, nil
}
