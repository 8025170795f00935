package staff

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/events"
)

// PublishByID publishes the novel with an id; ErrNoSuchNovel when there is none.
func (s *Staff) PublishByID(ctx context.Context, id uuid.UUID, reason string) (Novel, error) {
	return s.moderateKnown(ctx, id, reason, func(_ context.Context, n novel.Novel) ([]events.Event, error) {
		return n.Publish(novel.Publication{Title: n.Title, Reason: reason})
	})
}

// ApproveByID approves the novel with an id, as ApproveNovel does; ErrNoSuchNovel when there is none.
func (s *Staff) ApproveByID(ctx context.Context, id uuid.UUID, reason string) (Novel, error) {
	if err := requireReason(reason); err != nil {
		return Novel{}, err
	}
	return s.moderateKnown(ctx, id, reason,
		func(_ context.Context, n novel.Novel) ([]events.Event, error) { return one(n.Approve(reason)) })
}

// RejectByID rejects the novel with an id, or bars a free title; ErrNoSuchNovel when there is none.
func (s *Staff) RejectByID(ctx context.Context, id uuid.UUID, reason string) (Novel, error) {
	if err := requireReason(reason); err != nil {
		return Novel{}, err
	}
	return s.moderateKnown(ctx, id, reason, func(ctx context.Context, n novel.Novel) ([]events.Event, error) {
		return s.reject(ctx, n, n.Title, reason)
	})
}

// EditNovel changes fields of a canonical novel. The fields are valid. It fails with a *novel.EditError on any other.
func (s *Staff) EditNovel(ctx context.Context, id uuid.UUID, fields novel.Fields, reason string) (Novel, error) {
	return s.moderateKnown(ctx, id, reason,
		func(_ context.Context, n novel.Novel) ([]events.Event, error) { return one(n.Edit(fields, reason)) })
}

func (s *Staff) moderateKnown(
	ctx context.Context, id uuid.UUID, reason string, decide func(context.Context, novel.Novel) ([]events.Event, error),
) (Novel, error) {
	return s.moderate(ctx, id, reason, func(ctx context.Context, n novel.Novel) ([]events.Event, error) {
		if n.Version == 0 {
			return nil, fmt.Errorf("%w: %s", ErrNoSuchNovel, id)
		}
		return decide(ctx, n)
	})
}
