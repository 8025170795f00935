package queries

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/aggregates/novel"
	"novelgate/internal/title"
)

// Host is the owner of the novels that the host platform publishes.
const Host = "host"

// CatalogueParams selects novels. With only Limit it is the first page of all novels.
type CatalogueParams struct {
	Text  string // in the title, ignoring case
	State string // "approved" or "published"; "" for both
	Owner string // name of a partner platform, ignoring case, or Host; "" for all
	After string // Next of the previous page
	Limit int    // 1 or more
	Look  int    // limit on titles to examine with a filter; 0: DefaultLook
}

// DefaultLook limits the cost of a request with a filter, for any size of the catalogue.
const DefaultLook = 20_000

// CataloguePage is one page of a list of novels.
type CataloguePage struct {
	Novels []Novel
	// place after which the next page starts; "" on the last page. A page may have fewer novels than Limit and still have
	// a Next
	Next string
}

//go:embed novels.sql
var novelsSQL string

// Novels lists public novels, sorted by title.
func (r *Reader) Novels(ctx context.Context, c CatalogueParams) (CataloguePage, error) {
	var state, owner *string
	var look *int
	if c.State != "" {
		state = &c.State
	}
	switch name := c.Owner; name {
	case "":
	case Host:
		owner = new(string)
	default:
		owner = &name
	}
	if c.Text != "" || state != nil || owner != nil {
		most := cmp.Or(c.Look, DefaultLook)
		look = &most
	}
	rows, err := r.DB.Query(ctx, novelsSQL, state, title.Fold(c.Text), owner, c.After, c.Limit+1, look)
	if err != nil {
		return CataloguePage{}, fmt.Errorf("list novels: %w", err)
	}
	var (
		found   []Novel
		folded  []string
		reached pgtype.Text // the last examined title, if there are more
		further bool        // there are novels that do not fit on the page
	)
	defer rows.Close()
	for size := 0; rows.Next(); {
		if further = len(found) == c.Limit || size >= catalogueBytes; further {
			break
		}
		n, key, details, err := scanListed(rows, &reached)
		if err != nil {
			return CataloguePage{}, fmt.Errorf("list novels: %w", err)
		}
		size += details
		if key.Valid { // else the row has no novel
			found, folded = append(found, n), append(folded, key.String)
		}
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return CataloguePage{}, fmt.Errorf("list novels: %w", err)
	}
	if further {
		return CataloguePage{Novels: found, Next: folded[len(folded)-1]}, nil
	}
	return CataloguePage{Novels: found, Next: reached.String}, nil
}

// catalogueBytes is the size at which a page of novels is full. It is enough for a hundred novels with a synopsis of a
// few sentences.
const catalogueBytes = 256 << 10

// scanListed reads a row of novels.sql. size is the number of bytes of its details. The key is null in a row without a
// novel.
func scanListed(rows pgx.Rows, reached *pgtype.Text) (n Novel, key pgtype.Text, size int, err error) {
	var id uuid.NullUUID
	var slug, title, state, platform pgtype.Text
	var details pgtype.DriverBytes // not copied
	if err := rows.Scan(reached, &id, &slug, &title, &state, &platform, &details, &key); err != nil || !key.Valid {
		return n, key, 0, err //nolint:wrapcheck // the caller wraps it
	}
	n = Novel{
		ID: id.UUID, Slug: slug.String, Title: title.String, State: novel.State(state.String), Platform: platform.String,
	}
	if err := json.Unmarshal(details, &n.Details); err != nil {
		return n, key, 0, fmt.Errorf("decode details of novel %s: %w", n.ID, err)
	}
	return n, key, len(details), nil
}
