package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"novelgate/events"
)

// fillLog appends n comments on novels to the log of a service, by COPY.
func (c *contestant) fillLog(ctx context.Context, titles, n int) error {
	columns := []string{
		"position", "stream_type", "stream_id", "stream_version", "event_id", "integration_id", "event_source", "event_type",
		"data", "personal", "salt", "key_id", "request_id", "batch_id", "fingerprint",
	}
	_, path := events.SplitSource(events.PostsSource(c.integration))
	return c.copyRows(ctx, titles, n, "events", columns, func(p *pastComments, position int) ([]any, error) {
		key, _, comment := p.next()
		stored, err := events.Encode(comment)
		return []any{
			int32(position), events.PostStream, events.PostID(c.integration, key), int32(1), key, //nolint:gosec // < rowsPerCopy
			c.integration, path, stored.Type, stored.Data, stored.Personal, uuid.New(), c.integration, uuid.NewString(),
			uuid.New(), uuid.New(),
		}, err
	})
}

// fillPeer inserts n comments into the table of the CRUD peer.
func (c *contestant) fillPeer(ctx context.Context, n int) (err error) {
	conn, err := pgx.Connect(ctx, c.databaseURL)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	threads := map[string]uuid.UUID{} // by slug: the peer generates its own identifiers
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
	return c.copyRows(ctx, c.Titles, n, "posts", columns, func(p *pastComments, _ int) ([]any, error) {
		key, slug, comment := p.next()
		chapter, _ := strconv.ParseFloat(string(comment.ChapterNumber), 64) // 0 without a chapter
		return []any{
			events.PostID(c.integration, key), c.integration, key, threads[slug], comment.ParentPostID,
			comment.Comment.ExternalUUID, comment.Comment.Username, chapter, comment.Comment.Content, comment.WrittenAt, p.now,
		}, nil
	})
}

// copyRows copies n rows into a table, with two writers. Its transactions are as large as those of a busy committer.
func (c *contestant) copyRows(ctx context.Context, titles, n int, table string, columns []string,
	row func(p *pastComments, position int) ([]any, error),
) error {
	const writers, rowsPerCopy = 2, 200
	pool, err := pgxpool.New(ctx, c.databaseURL)
	if err != nil {
		return fmt.Errorf("open pool: %w", err)
	}
	defer pool.Close()
	group, ctx := errgroup.WithContext(ctx)
	for writer := range writers {
		group.Go(func() error {
			p := newPastComments(c.integration, titles, writer, c.Replies)
			for left := (n + writer) / writers; left > 0; left -= rowsPerCopy {
				rows := pgx.CopyFromSlice(min(left, rowsPerCopy), func(i int) ([]any, error) { return row(p, i) })
				if _, err := pool.CopyFrom(ctx, pgx.Identifier{table}, columns, rows); err != nil {
					return fmt.Errorf("fill %s: %w", table, err)
				}
			}
			return nil
		})
	}
	c.accepted += n
	return group.Wait() // wrapped above
}
