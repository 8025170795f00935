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

// AuthorFilter selects authors of an integration. A nil field does not restrict the list.
type AuthorFilter struct {
	IntegrationID uuid.UUID
	Linked        *bool
	Blocked       *bool
	After         string // uuid of the previous page's last author
	Limit         int    // 1 or more
}

// ListAuthors lists the authors of an integration with comments or decisions, sorted by the bytes of the partner's
// identifier.
func (s *Staff) ListAuthors(ctx context.Context, f AuthorFilter) ([]Author, error) {
	if _, err := s.Integration(ctx, f.IntegrationID.String()); err != nil {
		return nil, err
	}
	sql := authorsSQL
	if f.Linked != nil && *f.Linked || f.Blocked != nil && *f.Blocked {
		sql = authorsDecidedSQL // few authors have decisions
	}
	return list(ctx, s, "authors", scanAuthor, sql, f.IntegrationID, f.After, f.Linked, f.Blocked, f.Limit)
}
