package queries

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

//go:embed single.sql
var singleSQL string

// Single is a comment with its novel.
type Single struct {
	Novel    Heading
	ThreadID uuid.UUID
	Post     Post
}

// Post returns one comment, also before it is in the read model. It fails with ErrNotFound or ErrGone.
func (r *Reader) Post(ctx context.Context, id uuid.UUID) (Single, error) {
	s, err := one(ctx, r.DB, scanSingle, singleSQL, id)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return r.recentPost(ctx, id)
	case err != nil:
		return Single{}, fmt.Errorf("read comment: %w", err)
	}
	return s, visible(s.Novel.state)
}

func scanSingle(row pgx.CollectableRow) (Single, error) {
	var s Single
	var hidden bool
	var content, member, name, platform pgtype.Text
	p := &s.Post
	if err := row.Scan(&s.Novel.ID, &s.Novel.Slug, &s.Novel.Title, &s.Novel.state, &s.ThreadID,
		&p.ID, &p.ParentID, &p.RootID, &p.Depth, &p.Chapter, &p.WrittenAt, &p.ReceivedAt, &p.authorID,
		&hidden, &content, &member, &name, &platform); err != nil {
		return Single{}, fmt.Errorf("scan comment: %w", err)
	}
	p.show(hidden, content, member, name, platform)
	return s, nil
}
