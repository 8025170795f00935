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

// CatalogueParams says which novels to list. The zero value, with a Limit, is the beginning of all of them.
type CatalogueParams struct {
	Text  string // in the title, whatever the case
	State string // "approved" or "published"; "" for both
	Owner string // name of a partner platform, whatever the case, or Host; "" for all
	After string // Next of the page before
	Limit int    // 1 or more
	Look  int    // at how many titles, at most, when not every novel is wanted; DefaultLook when 0
}

// DefaultLook bounds what one request costs, however large the catalogue and however rare a match.
const DefaultLook = 20_000

// CataloguePage is a part of a list of novels.
type CataloguePage struct {
	Novels []Novel
	// where the next page starts after; "" when this is the last. Novels may be fewer than the limit all the same
	Next string
}

//go:embed novels.sql
var novelsSQL string

// Novels lists novels that the public may see, by title.
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
		reached pgtype.Text // the last title that was looked at, if there are more
		further bool        // there are novels that the page has no room for
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
		if key.Valid { // else there is none
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

// catalogueBytes is from which size on a page of novels takes no further one: what a hundred novels with a synopsis of
// a few sentences come to.
const catalogueBytes = 256 << 10

// scanListed reads a row of novels.sql, and how many bytes of details it has. The key is null in a row without a novel.
func scanListed(rows pgx.Rows, reached *pgtype.Text) (n Novel, key pgtype.Text, size int, err error) {
	var id uuid.NullUUID
	var slug, title, state, platform pgtype.Text
	var details pgtype.DriverBytes // not copied
	if err := rows.Scan(reached, &id, &slug, &title, &state, &platform, &details, &key); err != nil || !key.Valid {
		return n, key, 0, err //nolint:wrapcheck // the caller says what it was reading
	}
	n = Novel{ID: id.UUID, Slug: slug.String, Title: title.String, State: novel.State(state.String), Platform: platform.String}
	if err := json.Unmarshal(details, &n.Details); err != nil {
		return n, key, 0, fmt.Errorf("decode details of novel %s: %w", n.ID, err)
	}
	return n, key, len(details), nil
}
