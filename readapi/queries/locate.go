package queries

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/aggregates/novel"
)

//go:embed locate.sql
var locateSQL string

// errNotProjected means that the read model does not have the comment in this discussion, yet or at all.
var errNotProjected = errors.New("the comment is not in the read model")

// located is the place of a comment in a discussion.
type located struct {
	root          uuid.UUID // its top-level comment
	rootWrittenAt time.Time
	id            uuid.UUID
	at            time.Time // of receipt
	depth         int
	beyond        bool // it comes after the first FirstReplies replies of root
	older, newer  bool // whether there are top-level comments before and after root
}

func (l located) start() place { return placeOf(l.rootWrittenAt, 0, l.root) }

// locate finds a comment in the discussion of a novel.
func (r *Reader) locate(ctx context.Context, q DiscussionParams, id uuid.UUID) (located, error) {
	var state novel.State
	found, err := one(ctx, r.DB, func(row pgx.CollectableRow) (l located, err error) {
		err = row.Scan(&state, &l.root, &l.rootWrittenAt, &l.id, &l.at, &l.depth, &l.beyond, &l.older, &l.newer)
		return l, err
	}, locateSQL, q.Slug, id, until(q.AsOf), FirstReplies)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return located{}, errNotProjected
	case err != nil:
		return located{}, fail(err)
	}
	return found, visible(state)
}

// until returns the end of the time range of a page, inclusive.
func until(asOf *time.Time) pgtype.Timestamptz {
	if asOf == nil {
		return last.at
	}
	return pgtype.Timestamptz{Time: *asOf, Valid: true}
}
