package staff

import (
	"context"
	_ "embed"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

// PostContext is a post with what surrounds it.
type PostContext struct {
	Post    Post           `json:"post"`
	Parent  *ListedPost    `json:"parent"`  // nil for a top-level post
	Before  []ListedPost   `json:"before"`  // earlier posts beside it: top-level posts or, for a reply, of its tree
	After   []ListedPost   `json:"after"`   // later ones
	Replies []ListedPost   `json:"replies"` // the first direct replies
	Author  *AuthorContext `json:"author"`  // nil after erasure or withdrawal
}

// AuthorContext is the author of a post, with the decisions about them.
type AuthorContext struct {
	Author `json:",inline"`

	Posts     int          `json:"posts"`     // at most examined; erased and withdrawn ones do not name their author
	Hidden    int          `json:"hidden"`    // of these; at most examined
	Reports   int          `json:"reports"`   // readers who reported these, since the latest decision about each
	Moderated []ListedPost `json:"moderated"` // posts that staff decided about, the latest first
}

//go:embed posts_counts.sql
var postsCountsSQL string

// contextWalks select what surrounds the post $1. Of a tree, up to a thousand replies are examined.
var contextWalks = [...]string{
	`SELECT b.post_id, 0::bigint AS place, NULL::timestamptz AS since FROM posts c JOIN posts b ON b.post_id = c.parent_post_id
    WHERE c.post_id = $1`,
	besideWalk("<", "DESC", "-"),
	besideWalk(">", "", ""),
	`SELECT * FROM (
        SELECT b.post_id, row_number() OVER (ORDER BY b.written_at, b.log_index) AS place, NULL::timestamptz AS since
        FROM posts c CROSS JOIN LATERAL (
            SELECT r.* FROM posts r
            WHERE r.root_post_id = coalesce(c.root_post_id, c.post_id)
              AND (r.written_at, r.log_index) >= (c.written_at, c.log_index)
            ORDER BY r.written_at, r.log_index LIMIT 1000
        ) AS b WHERE c.post_id = $1 AND b.parent_post_id = c.post_id
    ) AS numbered WHERE place <= 5`,
	`SELECT q.post_id, -extract(epoch FROM q.moderated_at)::bigint AS place, NULL::timestamptz AS since
    FROM posts c JOIN posts q ON q.author_id = c.author_id
    WHERE c.post_id = $1 AND q.moderated_at IS NOT NULL AND q.post_id <> $1
    ORDER BY q.moderated_at DESC LIMIT 10`,
}

// besideWalk selects the posts before or after the post $1, among top-level posts or in its tree.
func besideWalk(sign, order, minus string) string {
	return `SELECT b.post_id, ` + minus + `row_number() OVER (ORDER BY b.written_at ` + order + `, b.log_index ` + order + `)
        AS place, NULL::timestamptz AS since
    FROM posts c CROSS JOIN LATERAL (
        (SELECT n.post_id, n.written_at, n.log_index FROM posts n
         WHERE c.root_post_id IS NULL AND n.thread_id = c.thread_id AND n.root_post_id IS NULL AND NOT n.vanished
           AND (n.written_at, n.log_index) ` + sign + ` (c.written_at, c.log_index)
         ORDER BY n.written_at ` + order + `, n.log_index ` + order + ` LIMIT 3)
        UNION ALL
        (SELECT n.post_id, n.written_at, n.log_index FROM posts n
         WHERE n.root_post_id = c.root_post_id AND (n.written_at, n.log_index) ` + sign + ` (c.written_at, c.log_index)
         ORDER BY n.written_at ` + order + `, n.log_index ` + order + ` LIMIT 3)
    ) AS b WHERE c.post_id = $1`
}

// PostContext finds a post with what surrounds it; post.ErrNotFound when there is none. What surrounds it follows the
// log by milliseconds.
func (s *Staff) PostContext(ctx context.Context, id uuid.UUID) (PostContext, error) {
	found := PostContext{}
	var err error
	if found.Post, err = s.Post(ctx, id); err != nil {
		return PostContext{}, err
	}
	var lists [len(contextWalks)][]ListedPost
	for i, walk := range contextWalks {
		q := postQuery{walk: walk, filter: "true", order: "place"}
		if lists[i], err = database.Collect(ctx, s.Pool, "context of a post", scanListedPost, q.page(10), id); err != nil {
			return PostContext{}, err
		}
	}
	if len(lists[0]) > 0 {
		found.Parent = &lists[0][0]
	}
	found.Before, found.After, found.Replies = lists[1], lists[2], lists[3]
	if found.Post.Author == nil || found.Post.Withdrawn {
		return found, nil
	}
	author, err := s.AuthorContext(ctx, AuthorName{found.Post.IntegrationID, found.Post.Author.ExternalUUID})
	switch {
	case errors.Is(err, ErrNoSuchAuthor): // the projection has not applied the first comment yet
		return found, nil
	case err != nil:
		return PostContext{}, err
	}
	author.Moderated = lists[4]
	found.Author = &author
	return found, nil
}

// AuthorContext finds an author as AuthorWithHistory does, with counts, and without Moderated.
func (s *Staff) AuthorContext(ctx context.Context, name AuthorName) (found AuthorContext, err error) {
	if found.Author, err = s.AuthorWithHistory(ctx, name); err != nil {
		return AuthorContext{}, err
	}
	counts, err := database.Collect(ctx, s.Pool, "counts of an author", pgx.RowTo[int], postsCountsSQL, found.ID,
		examined)
	if err != nil {
		return AuthorContext{}, err
	}
	found.Posts, found.Hidden, found.Reports = counts[0], min(counts[1], examined), counts[2]
	return found, nil
}
