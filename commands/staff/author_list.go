package staff

import (
	"context"
	_ "embed"

	"github.com/google/uuid"
)

var (
	//go:embed author.sql
	authorSQL string
	//go:embed authors.sql
	authorsSQL string
	//go:embed authors_decided.sql
	authorsDecidedSQL string
)

// AuthorFilter says which authors of an integration to list. A nil does not restrict.
type AuthorFilter struct {
	IntegrationID uuid.UUID
	Linked        *bool
	Blocked       *bool
	After         string // uuid of the last author of the page before
	Limit         int    // 1 or more
}

// ListAuthors lists the authors of an integration who have commented, and those about whom something was decided, by
// the partner's identifier, byte by byte.
func (s *Staff) ListAuthors(ctx context.Context, f AuthorFilter) ([]Author, error) {
	if _, err := s.Integration(ctx, f.IntegrationID.String()); err != nil {
		return nil, err
	}
	sql := authorsSQL
	if f.Linked != nil && *f.Linked || f.Blocked != nil && *f.Blocked {
		sql = authorsDecidedSQL // they are few
	}
	return list(ctx, s, "authors", scanAuthor, sql, f.IntegrationID, f.After, f.Linked, f.Blocked, f.Limit)
}
