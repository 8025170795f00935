package readapi

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

var (
	//go:embed sitemaps.sql
	sitemapsSQL string
	//go:embed sitemap.sql
	sitemapSQL string
)

// SitemapParts returns the first bytes of the ids of the public novels, in order.
func (r *Reader) SitemapParts(ctx context.Context) ([]byte, error) {
	rows, _ := r.DB.Query(ctx, sitemapsSQL) // CollectRows returns its error
	parts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (byte, error) {
		part, err := pgx.RowTo[int](row)
		return byte(part), err //nolint:gosec // at most 255
	})
	if err != nil {
		return nil, fmt.Errorf("read parts of the sitemap: %w", err)
	}
	return parts, nil
}

// sitemapNovels limits Slugs: a sitemap has at most 50,000 addresses, two of each novel and a few others.
const sitemapNovels = 24_000

// Slugs returns the slugs of the public novels whose id starts with the byte begin.
func (r *Reader) Slugs(ctx context.Context, begin byte) ([]string, error) {
	from, to := uuid.UUID{begin}, uuid.Max
	to[0] = begin
	rows, _ := r.DB.Query(ctx, sitemapSQL, from, to, sitemapNovels) // CollectRows returns its error
	slugs, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read sitemap: %w", err)
	}
	return slugs, nil
}
