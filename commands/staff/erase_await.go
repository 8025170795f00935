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

// NotAppliedError names the projections that have not applied an erasure.
type NotAppliedError struct{ Projections []string }

func (e *NotAppliedError) Error() string {
	return "not applied yet by " + strings.Join(e.Projections, ", ")
}

// AwaitErased waits until the asynchronous projections have applied the latest erasure of an author. It fails with a
// *NotAppliedError when ctx ends first, or when only stopped projections are left.
func (s *Staff) AwaitErased(ctx context.Context, authorID uuid.UUID) error {
	var notApplied *NotAppliedError
	for {
		pending, err := s.pendingErasure(ctx, authorID)
		switch {
		case err != nil && ctx.Err() != nil && notApplied != nil:
			return notApplied
		case err != nil:
			return err
		case len(pending) == 0:
			return nil
		}
		notApplied = &NotAppliedError{}
		for _, p := range pending {
			notApplied.Projections = append(notApplied.Projections, p.Name)
		}
		if !slices.ContainsFunc(pending, func(p pendingProjection) bool { return !p.Stopped }) {
			return notApplied
		}
		select {
		case <-ctx.Done():
			return notApplied
		case <-time.After(erasePoll):
		}
	}
}

// StoppedBefore names the projections that stopped before the latest erasure of an author. Their tables keep the
// author's data until they continue.
func (s *Staff) StoppedBefore(ctx context.Context, authorID uuid.UUID) (names []string, err error) {
	pending, err := s.pendingErasure(ctx, authorID)
	for _, p := range pending {
		if p.Stopped {
			names = append(names, p.Name)
		}
	}
	return names, err
}

// followsAuthors names the asynchronous projections with data of authors.
func followsAuthors() []string {
	return []string{projections.Posts{}.Name(), projections.Authors{}.Name(), projections.Activity{}.Name()}
}

// pendingProjection is a projection that has not applied an erasure.
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

const unfinishedSQL = `SELECT name FROM projection_rebuilds WHERE phase <> 'finished' AND name = ANY ($1) ORDER BY name`

// UnfinishedRebuilds returns the projections with data of authors that have an unfinished rebuild. The rebuilt tables
// keep erased authors until the rebuild continues and applies the erasure, or is discarded.
func (s *Staff) UnfinishedRebuilds(ctx context.Context) ([]string, error) {
	names := append(followsAuthors(), projections.AuthorDecisions{}.Name())
	rows, err := s.Pool.Query(ctx, unfinishedSQL, names)
	if err != nil {
		return nil, fmt.Errorf("look for unfinished rebuilds: %w", err)
	}
	unfinished, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for unfinished rebuilds: %w", err)
	}
	return unfinished, nil
}
