package crud

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/commands/request"
	"novelgate/internal/title"
)

//go:embed schema.sql
var schemaSQL string

// CreateTables makes the tables in an empty database.
func CreateTables(ctx context.Context, databaseURL string) (err error) {
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if _, err := conn.Exec(ctx, schemaSQL); err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	return nil
}

const findNovelSQL = `SELECT n.novel_id, n.slug, t.thread_id
FROM novels n LEFT JOIN threads t ON t.novel_id = n.novel_id
WHERE lower(n.title) = lower($1)`

const insertNovelSQL = `INSERT INTO novels (novel_id, title, slug, created_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (lower(title)) DO NOTHING`

const insertThreadSQL = `INSERT INTO threads (thread_id, novel_id) VALUES ($1, $2) ON CONFLICT (novel_id) DO NOTHING`

const findParentSQL = `SELECT post_id FROM posts WHERE integration_id = $1 AND idempotency_key = $2 AND thread_id = $3`

const insertPostSQL = `INSERT INTO posts (post_id, integration_id, idempotency_key, thread_id, parent_post_id, author_uuid, username,
                   chapter_number, content, written_at, received_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text::numeric, $9, $10, $11)
ON CONFLICT (integration_id, idempotency_key) DO NOTHING`

const findPostSQL = `SELECT p.post_id, p.thread_id, p.parent_post_id, n.slug
FROM posts p JOIN threads t USING (thread_id) JOIN novels n USING (novel_id)
WHERE p.integration_id = $1 AND p.idempotency_key = $2`

// stored is a comment as the answer needs it.
type stored struct {
	created  bool
	postID   uuid.UUID
	threadID uuid.UUID
	parentID *uuid.UUID
	slug     string
}

// importPost carries out one command in a transaction of its own.
func (s *server) importPost(
	ctx context.Context, integrationID uuid.UUID, key string, post request.Post, receivedAt time.Time,
) (stored, error) {
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return stored{}, fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // after a commit there is nothing to roll back

	result := stored{created: true, postID: uuid.Must(uuid.NewV7())}
	if result.threadID, result.slug, err = findThread(ctx, tx, post.Title, receivedAt); err != nil {
		return stored{}, err
	}
	if post.ParentKey != nil {
		if result.parentID, err = findParent(ctx, tx, integrationID, *post.ParentKey, result.threadID); err != nil {
			return stored{}, err
		}
	}
	tag, err := tx.Exec(ctx, insertPostSQL, result.postID, integrationID, key, result.threadID, result.parentID,
		post.AuthorUUID,
		post.Username, (*string)(post.Chapter), post.Content, post.WrittenAt, receivedAt)
	if err != nil {
		return stored{}, fmt.Errorf("insert post: %w", err)
	}
	if tag.RowsAffected() == 0 { // the key was used before
		result = stored{}
		if err := tx.QueryRow(ctx, findPostSQL, integrationID, key).Scan(&result.postID, &result.threadID, &result.parentID,
			&result.slug); err != nil {
			return stored{}, fmt.Errorf("find post: %w", err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return stored{}, fmt.Errorf("commit: %w", err)
	}
	return result, nil
}

// findThread returns the discussion of a novel, and the novel's slug. What does not exist yet is created.
func findThread(
	ctx context.Context, tx pgx.Tx, spelling string, now time.Time,
) (threadID uuid.UUID, slug string, err error) {
	novelID, slug, found, err := findNovel(ctx, tx, spelling)
	if errors.Is(err, pgx.ErrNoRows) {
		id := uuid.Must(uuid.NewV7())
		if _, err := tx.Exec(ctx, insertNovelSQL, id, spelling, title.Slug(spelling), now); err != nil {
			return uuid.Nil, "", fmt.Errorf("insert novel: %w", err)
		}
		novelID, slug, found, err = findNovel(ctx, tx, spelling)
	}
	if err != nil {
		return uuid.Nil, "", fmt.Errorf("find novel: %w", err)
	}
	if found.Valid {
		return found.UUID, slug, nil
	}
	if _, err := tx.Exec(ctx, insertThreadSQL, uuid.Must(uuid.NewV7()), novelID); err != nil {
		return uuid.Nil, "", fmt.Errorf("insert thread: %w", err)
	}
	if _, _, found, err = findNovel(ctx, tx, spelling); err != nil {
		return uuid.Nil, "", fmt.Errorf("find thread: %w", err)
	}
	return found.UUID, slug, nil
}

func findNovel(
	ctx context.Context, tx pgx.Tx, spelling string,
) (novelID uuid.UUID, slug string, threadID uuid.NullUUID, err error) {
	err = tx.QueryRow(ctx, findNovelSQL, spelling).Scan(&novelID, &slug, &threadID)
	return novelID, slug, threadID, err // the caller tells no rows from failure
}

func findParent(
	ctx context.Context, tx pgx.Tx, integrationID uuid.UUID, key string, threadID uuid.UUID,
) (*uuid.UUID, error) {
	var parentID uuid.UUID
	err := tx.QueryRow(ctx, findParentSQL, integrationID, key, threadID).Scan(&parentID)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil // an unknown parent makes a top-level comment
	case err != nil:
		return nil, fmt.Errorf("find parent: %w", err)
	}
	return &parentID, nil
}
