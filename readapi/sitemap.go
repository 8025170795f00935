package readapi

import (
	"context"
	_ "embed"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

var (
	//go:embed sitemaps.sql
	sitemapsSQL string
	//go:embed sitemap.sql
	sitemapSQL string
)

// SitemapParts returns the bytes with which ids of public novels begin, in ascending order.
func (r *Reader) SitemapParts(ctx context.Context) ([]byte, error) {
	return database.Collect(ctx, r.DB, "parts of the sitemap", func(row pgx.CollectableRow) (byte, error) {
		part, err := pgx.RowTo[int](row)
		return byte(part), err //nolint:gosec // at most 255
	}, sitemapsSQL)
}

// sitemapNovels limits Slugs: a sitemap has at most 50,000 addresses, two of each novel and a few others.
const sitemapNovels = 24_000

// Slugs returns the slugs of the public novels whose id starts with the byte begin.
func (r *Reader) Slugs(ctx context.Context, begin byte) ([]string, error) {
	from, to := uuid.UUID{begin}, uuid.Max
	to[0] = begin
	return database.Collect(ctx, r.DB, "sitemap", pgx.RowTo[string], sitemapSQL, from, to, sitemapNovels)
}
