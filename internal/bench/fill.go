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
	"novelgate/events/eventlog"
)

// fillLog appends n comments on novels to the log of a service, by COPY. Log indexes are assigned under the lock of the
// log, as for every append.
func (c *contestant) fillLog(ctx context.Context, titles, n int) error {
	columns := []string{
		"log_index", "batch_id", "stream_type", "stream_id", "stream_version", "event_id", "integration_id", "event_source",
		"event_type", "data", "personal", "salt", "key_id", "request_id", "fingerprint",
	}
	_, path := events.SplitSource(events.PostsSource(c.integration))
	row := func(p *pastComments) ([]any, error) {
		key, _, comment := p.next()
		stored, err := events.Encode(comment)
		return []any{
			nil, nil, events.PostStream, events.PostID(c.integration, key), int32(1), key, c.integration, path, stored.Type,
			stored.Data, stored.Personal, uuid.New(), c.integration, uuid.NewString(), uuid.New(),
		}, err
	}
	return c.copyRows(ctx, titles, n, row, func(ctx context.Context, pool *pgxpool.Pool, rows [][]any) error {
		return eventlog.Under(ctx, pool, func(tx pgx.Tx) error {
			end, err := eventlog.End(ctx, tx)
			if err != nil {
				return err
			}
			batch := uuid.New()
			for i := range rows {
				rows[i][0], rows[i][1] = int64(end.Position)+int64(i), batch
			}
			_, err = tx.CopyFrom(ctx, pgx.Identifier{"events"}, columns, pgx.CopyFromRows(rows))
			return err
		})
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
	row := func(p *pastComments) ([]any, error) {
		key, slug, comment := p.next()
		chapter, _ := strconv.ParseFloat(string(comment.ChapterNumber), 64) // 0 without a chapter
		return []any{
			events.PostID(c.integration, key), c.integration, key, threads[slug], comment.ParentPostID,
			comment.Comment.ExternalUUID, comment.Comment.Username, chapter, comment.Comment.Content, comment.WrittenAt, p.now,
		}, nil
	}
	return c.copyRows(ctx, c.Titles, n, row, func(ctx context.Context, pool *pgxpool.Pool, rows [][]any) error {
		_, err := pool.CopyFrom(ctx, pgx.Identifier{"posts"}, columns, pgx.CopyFromRows(rows))
		return err
	})
}

// copyRows generates n rows and stores them, with two writers. Its transactions are as large as those of a busy
// committer.
func (c *contestant) copyRows(ctx context.Context, titles, n int, row func(p *pastComments) ([]any, error),
	store func(ctx context.Context, pool *pgxpool.Pool, rows [][]any) error,
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
				rows := make([][]any, min(left, rowsPerCopy))
				for i := range rows {
					var err error
					if rows[i], err = row(p); err != nil {
						return fmt.Errorf("generate a comment: %w", err)
					}
				}
				if err := store(ctx, pool, rows); err != nil {
					return fmt.Errorf("store comments: %w", err)
				}
			}
			return nil
		})
	}
	c.accepted += n
	return group.Wait() // wrapped above
}
