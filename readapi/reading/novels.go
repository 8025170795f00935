package reading

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/title"
)

// Host is the owner of the novels that the host platform publishes.
const Host = "host"

// Catalogue says which novels to list. The zero value, with a Limit, is the beginning of all of them.
type Catalogue struct {
	Text  string // in the title, whatever the case
	State string // "approved" or "published"; "" for both
	Owner string // name of a partner platform, whatever the case, or Host; "" for all
	After string // Next of the page before
	Limit int    // 1 or more
}

// CataloguePage is a part of a list of novels.
type CataloguePage struct {
	Novels []Novel
	Next   string // where the next page starts after; "" when this is the last
}

//go:embed novels.sql
var novelsSQL string

// Novels lists novels that the public may see, by title.
func (r *Reader) Novels(ctx context.Context, c Catalogue) (CataloguePage, error) {
	var state, owner *string
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
	rows, err := r.DB.Query(ctx, novelsSQL, state, title.Fold(c.Text), owner, c.After, c.Limit+1)
	if err != nil {
		return CataloguePage{}, fmt.Errorf("list novels: %w", err)
	}
	var folded []string
	novels, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Novel, error) {
		var key string
		n, err := scanNovel(row, &key)
		folded = append(folded, key)
		return n, err
	})
	if err != nil {
		return CataloguePage{}, fmt.Errorf("list novels: %w", err)
	}
	if len(novels) <= c.Limit {
		return CataloguePage{Novels: novels}, nil
	}
	return CataloguePage{Novels: novels[:c.Limit], Next: folded[c.Limit-1]}, nil
}
