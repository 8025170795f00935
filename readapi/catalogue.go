package readapi

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/aggregates/novel"
	"novelgate/internal/title"
)

// Host is the owner of the novels that the host platform publishes.
const Host = "host"

// The orders of a list of novels.
const (
	ByTitle    = "title"    // ignoring punctuation at the beginning
	ByActivity = "activity" // latest comment first, to the minute; then the novels without comments, newest first
	ByNewest   = "newest"
)

// CatalogueParams selects novels. With only Sort and Limit it is the first page of all novels.
type CatalogueParams struct {
	Sort     string // ByTitle, ByActivity or ByNewest
	Text     string // in the title, ignoring case
	State    string // "approved" or "published"; "" for both
	Owner    string // name of a partner platform, ignoring case, or Host; "" for all
	Genre    string // exactly; "" for all
	Language string // ignoring case; "" for all
	After    string // Next of the previous page
	Limit    int    // 1 or more
	// MaxExamined is the maximum number of novels to examine with a filter. Default: 20,000.
	MaxExamined int
}

// Filtered reports whether the list leaves out novels.
func (c *CatalogueParams) Filtered() bool {
	return c.Text != "" || c.State != "" || c.Owner != "" || c.Genre != "" || c.Language != ""
}

// defaultExamined limits the cost of a request with a filter, for any size of the catalogue.
const defaultExamined = 20_000

// CataloguePage is one page of a list of novels.
type CataloguePage struct {
	Novels []Novel
	// Next is the sort key after which the next page starts; "" on the last page. A page that is not the last one may have
	// fewer novels than Limit.
	Next string
}

//go:embed novels.sql
var novelsSQL string

const (
	titlesSource = "(SELECT t.folded_title, title_order(t.folded_title) AS placed, t.novel_id, " +
		"NULL::timestamptz AS posted_at, NULL::timestamptz AS created_at FROM :table)"
	activitySource = "(SELECT ''::text AS folded_title, ''::text AS placed, t.novel_id, t.posted_at, t.created_at " +
		"FROM :table)"
)

// novelStatements are the statements of each order: the first for all novels, the second for the novels in its last
// parameter.
var novelStatements = map[string][2]string{
	ByTitle: novelStatement(titlesSource, "title_lookup", "s.placed, s.folded_title",
		"(s.placed, s.folded_title) > (title_order($8), $8)", "s.folded_title", "$9"),
	ByActivity: novelStatement(activitySource, "novel_activity", "s.posted_at DESC, s.created_at DESC, s.novel_id DESC",
		"(s.posted_at, s.created_at, s.novel_id) < ($8, $9, $10)", "l.folded_title", "$11"),
	ByNewest: novelStatement(activitySource, "novel_activity", "s.created_at DESC, s.novel_id DESC",
		"(s.created_at, s.novel_id) < ($8, $9)", "l.folded_title", "$10"),
}

// novelStatement completes novels.sql as the comment in the file says. source is the ordered table, with :table in
// place of its name. candidates is the placeholder of the novels of the second statement: LATERAL and OFFSET 0 make
// PostgreSQL look up each of them in the table.
func novelStatement(source, table, key, after, folded, candidates string) (statements [2]string) {
	for i, from := range []string{
		table + " t", "unnest(" + candidates + "::uuid[]) AS f (novel_id) CROSS JOIN LATERAL (SELECT a.* FROM " + table +
			" a WHERE a.novel_id = f.novel_id OFFSET 0) AS t",
	} {
		statements[i] = strings.NewReplacer(":source", strings.Replace(source, ":table", from, 1), ":key", key,
			":after", after, ":folded", folded, ":last", strings.ReplaceAll(key, "s.", "n.")).Replace(novelsSQL)
	}
	return statements
}

// maxCandidates is the maximum number of matching novels to find by an index and then sort. More are so frequent that
// reading the list in its order fills a page soon.
const maxCandidates = 200

// facetsSQL finds the novels that a filter may select. $1: facets; $2: folded text; $3: limit; $4, $5: owner and
// language, as $3 and $5 of novels.sql. An unknown owner gives the facet NULL, which no novel has.
// The join names title_lookup, so that PostgreSQL locks the table before the statement gets its snapshot: otherwise a
// rebuild could exchange the table in between (see posts_of_authors in migrations/00005_projections.sql).
const facetsSQL = `SELECT novels_with_facets($1::text[]
    || CASE WHEN $5 <> '' THEN ARRAY['language:' || lower($5)] ELSE '{}' END
    || CASE WHEN $4::text = '' THEN ARRAY['owner:']
            WHEN $4 <> '' THEN ARRAY['owner:' || (SELECT o.integration_id FROM integrations o
                                                  WHERE lower(o.name) = lower($4))::text]
            ELSE '{}' END, $2, $3)
FROM (SELECT) AS k LEFT JOIN title_lookup l ON false`

// FacetsStatement returns the statement that finds the novels that a filter may select, and its arguments; "" if no
// index helps. The statement returns NULL if there are more than maxCandidates.
func FacetsStatement(c CatalogueParams) (sql string, args []any) {
	facets, folded := []string{}, title.Fold(c.Text)
	for pair := range pairs(folded) {
		facets = append(facets, pair)
	}
	if c.Genre != "" {
		facets = append(facets, "genre:"+c.Genre)
	}
	if len(facets) == 0 && c.Owner == "" && c.Language == "" {
		return "", nil
	}
	return facetsSQL, []any{facets, folded, maxCandidates, c.owner(), c.Language}
}

// pairs returns the pairs of adjacent characters of a text.
func pairs(text string) map[string]bool {
	found := map[string]bool{}
	characters := []rune(text)
	for i := range max(0, len(characters)-1) {
		found[string(characters[i:i+2])] = true
	}
	return found
}

// owner returns the owner as the statements take it: nil for any owner, and "" for the host platform.
func (c *CatalogueParams) owner() *string {
	switch c.Owner {
	case "":
		return nil
	case Host:
		return new(string)
	default:
		return &c.Owner
	}
}

// NovelsStatement returns the statement of a list of novels and its arguments. If candidates is not nil, it lists only
// these.
func NovelsStatement(c CatalogueParams, candidates []uuid.UUID) (sql string, args []any) {
	var state *string
	var examined *int
	if c.State != "" {
		state = &c.State
	}
	if c.Filtered() {
		examined = new(cmp.Or(c.MaxExamined, defaultExamined))
	}
	args = []any{state, title.Fold(c.Text), c.owner(), c.Genre, c.Language, c.Limit + 1, examined}
	after, _ := decodeNovelKey(c.After)
	switch c.Sort {
	case ByTitle:
		args = append(args, c.After)
	case ByActivity:
		args = append(args, after.posted, after.created, after.id)
	default:
		args = append(args, after.created, after.id)
	}
	if candidates == nil {
		return novelStatements[c.Sort][0], args
	}
	return novelStatements[c.Sort][1], append(args, candidates)
}

// Novels lists public novels. The orders by activity and by age come from a projection, about a millisecond late.
func (r *Reader) Novels(ctx context.Context, c CatalogueParams) (CataloguePage, error) {
	candidates, err := r.candidates(ctx, c)
	if err != nil {
		return CataloguePage{}, err
	}
	sql, args := NovelsStatement(c, candidates)
	rows, err := r.DB.Query(ctx, sql, args...)
	if err != nil {
		return CataloguePage{}, fmt.Errorf("list novels: %w", err)
	}
	defer rows.Close()
	var found CataloguePage
	var reached novelKey // of the last novel examined, if others were not examined
	var last novelKey    // of the last novel of the page
	further := false     // more novels were found than fit on the page
	for size := 0; rows.Next(); {
		if further = len(found.Novels) == c.Limit || size >= catalogueBytes; further {
			break
		}
		n, key, details, err := scanListed(rows, &reached)
		if err != nil {
			return CataloguePage{}, fmt.Errorf("list novels: %w", err)
		}
		size += details
		if n.ID != uuid.Nil { // else the row has no novel
			found.Novels, last = append(found.Novels, n), key
		}
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return CataloguePage{}, fmt.Errorf("list novels: %w", err)
	}
	if further {
		found.Next = last.encode(c.Sort)
	} else if reached.id.Valid {
		found.Next = reached.encode(c.Sort)
	}
	return found, nil
}

// candidates returns the novels that a filter may select; nil if there are more than maxCandidates, or if no index
// helps.
func (r *Reader) candidates(ctx context.Context, c CatalogueParams) ([]uuid.UUID, error) {
	sql, args := FacetsStatement(c)
	if sql == "" {
		return nil, nil
	}
	candidates, err := queryOne(ctx, r.DB, pgx.RowTo[[]uuid.UUID], sql, args...)
	if err != nil {
		return nil, fmt.Errorf("find novels: %w", err)
	}
	return candidates, nil
}

// catalogueBytes is the size at which a page of novels is full. It is enough for a hundred novels with a synopsis of a
// few sentences.
const catalogueBytes = 256 << 10

// scanListed reads a row of novels.sql, and the key of the last novel examined into reached. size is the number of
// bytes of the details. n.ID is zero in a row without a novel.
func scanListed(rows pgx.Rows, reached *novelKey) (n Novel, key novelKey, size int, err error) {
	var slug, name, state, platform pgtype.Text
	var details pgtype.DriverBytes // not copied
	if err := rows.Scan(&reached.title, &reached.posted, &reached.created, &reached.id,
		&key.title, &key.posted, &key.created, &key.id,
		&slug, &name, &state, &platform, &details, &n.Posts, &n.LastPost); err != nil || !key.id.Valid {
		return n, key, 0, err
	}
	n.ID, n.Slug, n.Title, n.State = key.id.UUID, slug.String, name.String, novel.State(state.String)
	n.Platform = platform.String
	if err := json.Unmarshal(details, &n.Details); err != nil {
		return n, key, 0, fmt.Errorf("decode details of novel %s: %w", n.ID, err)
	}
	return n, key, len(details), nil
}

// novelKey is the sort key of a novel in the lists.
type novelKey struct {
	title           pgtype.Text // folded; only in the order by title
	posted, created pgtype.Timestamptz
	id              uuid.NullUUID
}

// novelKeyLength is the length of an encoded key of the orders by activity and by age, in bytes.
const novelKeyLength = 8 + 8 + 16

func (k *novelKey) encode(sort string) string {
	if sort == ByTitle {
		return k.title.String
	}
	b := make([]byte, 0, novelKeyLength)
	for _, t := range []pgtype.Timestamptz{k.posted, k.created} {
		micros := int64(math.MinInt64) // -infinity
		if t.InfinityModifier == pgtype.Finite {
			micros = t.Time.UnixMicro()
		}
		b = binary.BigEndian.AppendUint64(b, uint64(micros)) //nolint:gosec // decodeNovelKey reverses the conversion
	}
	return string(append(b, k.id.UUID[:]...))
}

// decodeNovelKey is the reverse of encode for the orders by activity and by age. For "" it returns the key before the
// first novel.
func decodeNovelKey(text string) (novelKey, bool) {
	if text == "" {
		return novelKey{posted: highest.at, created: highest.at, id: uuid.NullUUID{UUID: uuid.Max, Valid: true}}, true
	}
	if len(text) != novelKeyLength {
		return novelKey{}, false
	}
	b, k := []byte(text), novelKey{}
	for i, t := range []*pgtype.Timestamptz{&k.posted, &k.created} {
		micros := int64(binary.BigEndian.Uint64(b[8*i:])) //nolint:gosec // reverses the conversion of encode
		if *t = lowest.at; micros == math.MinInt64 {
			continue
		}
		at := time.UnixMicro(micros).UTC()
		if at.Year() < earliestYear || at.Year() > latestYear {
			return novelKey{}, false
		}
		*t = pgtype.Timestamptz{Time: at, Valid: true}
	}
	k.id = uuid.NullUUID{UUID: uuid.UUID(b[16:]), Valid: true}
	return k, true
}
