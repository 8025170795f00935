package contest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"novelgate/events"
)

// Preload appends so many comments to the log of a service, as if they had been delivered earlier. Projections that
// run follow; see Settle.
func (a *Arena) Preload(ctx context.Context, d Database, n int) error {
	return FillLog(ctx, d, a.config.Titles, n)
}

// FillLog appends n comments on so many novels to a log, by COPY.
func FillLog(ctx context.Context, d Database, titles, n int) error {
	columns := []string{
		"position", "stream_type", "stream_id", "stream_version", "event_id", "integration_id", "event_source", "event_type",
		"data", "personal", "salt", "key_id", "request_id", "batch_id", "fingerprint",
	}
	return fill(ctx, d, titles, n, "events", columns, func(p *Past, position int) ([]any, error) {
		key, _, comment := p.Next()
		stored, err := events.Encode(comment)
		if err != nil {
			return nil, err //nolint:wrapcheck // fill says what it was
		}
		_, path := events.SplitSource(events.PostsSource(d.IntegrationID))
		return []any{
			int32(position), events.PostStream, events.PostID(d.IntegrationID, key), int32(1), key, //nolint:gosec // below transaction
			d.IntegrationID, path, stored.Type, stored.Data, stored.Personal, uuid.New(), d.IntegrationID, uuid.NewString(),
			uuid.New(), uuid.New(),
		}, nil
	})
}

// PreloadPeer inserts so many comments, as if they had been delivered earlier.
func (a *Arena) PreloadPeer(ctx context.Context, d Database, n int) (err error) {
	conn, err := pgx.Connect(ctx, d.URL)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	threads := map[string]uuid.UUID{} // by slug: the peer makes identifiers of its own
	var slug string
	var thread uuid.UUID
	rows, _ := conn.Query(ctx, `SELECT slug, thread_id FROM threads JOIN novels USING (novel_id)`) // ForEachRow returns its error
	if _, err := pgx.ForEachRow(rows, []any{&slug, &thread}, func() error {
		threads[slug] = thread
		return nil
	}); err != nil {
		return fmt.Errorf("read discussions: %w", err)
	}
	columns := []string{
		"post_id", "integration_id", "idempotency_key", "thread_id", "parent_post_id", "author_uuid", "username",
		"chapter_number", "content", "written_at", "received_at",
	}
	return fill(ctx, d, a.config.Titles, n, "posts", columns, func(p *Past, _ int) ([]any, error) {
		key, slug, c := p.Next()
		chapter, _ := strconv.ParseFloat(string(c.ChapterNumber), 64) // 0 for none will do here
		return []any{
			events.PostID(d.IntegrationID, key), d.IntegrationID, key, threads[slug], c.ParentPostID,
			c.Comment.ExternalUUID, c.Comment.Username, chapter, c.Comment.Content, c.WrittenAt, p.now,
		}, nil
	})
}

// fill lets a few writers copy n rows into a table, so many in one transaction as a busy committer has.
func fill(ctx context.Context, d Database, titles, n int, table string, columns []string,
	row func(p *Past, position int) ([]any, error),
) error {
	const writers, transaction = 2, 200
	pool, err := pgxpool.New(ctx, d.URL)
	if err != nil {
		return fmt.Errorf("open pool: %w", err)
	}
	defer pool.Close()
	group, ctx := errgroup.WithContext(ctx)
	for writer := range writers {
		group.Go(func() error {
			p := NewPast(d.IntegrationID, titles, writer, time.Now())
			for left := (n + writer) / writers; left > 0; left -= transaction {
				rows := pgx.CopyFromSlice(min(left, transaction), func(i int) ([]any, error) { return row(p, i) })
				if _, err := pool.CopyFrom(ctx, pgx.Identifier{table}, columns, rows); err != nil {
					return fmt.Errorf("fill %s: %w", table, err)
				}
			}
			return nil
		})
	}
	return group.Wait() // wrapped above
}
