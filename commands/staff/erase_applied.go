package staff

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/projections"
)

//go:embed erase_pending.sql
var erasePendingSQL string

// NotAppliedError names the projections whose tables still hold an author who is erased.
type NotAppliedError struct{ Projections []string }

func (e *NotAppliedError) Error() string {
	return "not applied yet by " + strings.Join(e.Projections, ", ")
}

// AwaitErased waits until the tables that follow the log have forgotten an author, up to their last erasure on record.
// It fails with a *NotAppliedError when ctx ends before that, and as soon as none but projections that have stopped are
// left.
func (s *Staff) AwaitErased(ctx context.Context, authorID uuid.UUID) error {
	var behind *NotAppliedError
	for {
		pending, err := s.pendingErasure(ctx, authorID)
		switch {
		case err != nil && ctx.Err() != nil && behind != nil:
			return behind
		case err != nil:
			return err
		case len(pending) == 0:
			return nil
		}
		behind = &NotAppliedError{}
		for _, p := range pending {
			behind.Projections = append(behind.Projections, p.Name)
		}
		if !slices.ContainsFunc(pending, func(p pendingProjection) bool { return !p.Stopped }) {
			return behind
		}
		select {
		case <-ctx.Done():
			return behind
		case <-time.After(erasePoll):
		}
	}
}

// StoppedBefore names the projections that have stopped before an author's last erasure on record: what they show stays
// until they go on.
func (s *Staff) StoppedBefore(ctx context.Context, authorID uuid.UUID) (names []string, err error) {
	pending, err := s.pendingErasure(ctx, authorID)
	for _, p := range pending {
		if p.Stopped {
			names = append(names, p.Name)
		}
	}
	return names, err
}

// followsAuthors names the projections that follow the log and hold something of authors.
func followsAuthors() []string {
	return []string{projections.Posts{}.Name(), projections.Authors{}.Name(), projections.Activity{}.Name()}
}

// pendingProjection is one that has not come to an erasure.
type pendingProjection struct {
	Name    string
	Stopped bool
}

func (s *Staff) pendingErasure(ctx context.Context, authorID uuid.UUID) ([]pendingProjection, error) {
	rows, err := s.Pool.Query(ctx, erasePendingSQL, followsAuthors(), authorID)
	if err != nil {
		return nil, fmt.Errorf("look who has applied the erasure: %w", err)
	}
	pending, err := pgx.CollectRows(rows, pgx.RowToStructByPos[pendingProjection])
	if err != nil {
		return nil, fmt.Errorf("look who has applied the erasure: %w", err)
	}
	return pending, nil
}
