package staff

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/novel"
	"novelgate/events"
	"novelgate/internal/title"
)

// Refusals about novels.
var (
	ErrNovelNotFound = errors.New("no novel has this title")
	ErrNoSuchNovel   = errors.New("no such novel")
	ErrTitleInvalid  = fmt.Errorf("a title must have 1 to %d characters of valid UTF-8", title.MaxLen)
)

// PublishNovel makes a title canonical. It creates an unknown novel and takes over a partner's novel.
func (s *Staff) PublishNovel(ctx context.Context, spelling, reason string) (Novel, error) {
	return s.PublishNovelWith(ctx, spelling, novel.Fields{}, reason)
}

// PublishNovelWith publishes a title and sets fields of the novel, in one transaction. The fields must be valid.
func (s *Staff) PublishNovelWith(
	ctx context.Context, spelling string, fields novel.Fields, reason string,
) (Novel, error) {
	return s.moderateTitle(ctx, spelling, reason,
		func(ctx context.Context, n novel.Novel, cleaned string) ([]events.Event, error) {
			cmd := novel.Publication{Title: cleaned, Fields: fields, Reason: reason}
			var err error
			if cmd.Slug, err = s.freeSlug(ctx, n, cleaned); err != nil {
				return nil, err
			}
			return n.Publish(cmd)
		})
}

// ApproveNovel approves a pending or rejected novel. A barred title becomes free.
func (s *Staff) ApproveNovel(ctx context.Context, spelling, reason string) (Novel, error) {
	if err := requireReason(reason); err != nil {
		return Novel{}, err
	}
	return s.moderateTitle(ctx, spelling, reason,
		func(_ context.Context, n novel.Novel, cleaned string) ([]events.Event, error) {
			if n.Version == 0 {
				return nil, fmt.Errorf("%w: %q", ErrNovelNotFound, cleaned)
			}
			return one(n.Approve(reason))
		})
}

// RejectNovel rejects a pending or approved novel, or bars a title without a novel.
func (s *Staff) RejectNovel(ctx context.Context, spelling, reason string) (Novel, error) {
	if err := requireReason(reason); err != nil {
		return Novel{}, err
	}
	return s.moderateTitle(ctx, spelling, reason,
		func(ctx context.Context, n novel.Novel, cleaned string) ([]events.Event, error) {
			return s.reject(ctx, n, cleaned, reason)
		})
}

func (s *Staff) reject(ctx context.Context, n novel.Novel, cleaned, reason string) ([]events.Event, error) {
	if n.Exists() {
		return one(n.Reject(reason))
	}
	slug, err := s.freeSlug(ctx, n, cleaned)
	if err != nil {
		return nil, err
	}
	return one(n.Bar(cleaned, slug, reason))
}

// one returns a decision of at most one event as a list.
func one(event events.Event, err error) ([]events.Event, error) {
	if event == nil || err != nil {
		return nil, err
	}
	return []events.Event{event}, nil
}

// moderateTitle finds the novel with a title, or mints an id for it, and appends the events that decide returns.
func (s *Staff) moderateTitle(
	ctx context.Context, spelling, reason string,
	decide func(_ context.Context, _ novel.Novel, cleaned string) ([]events.Event, error),
) (Novel, error) {
	cleaned := title.Clean(spelling)
	if n := utf8.RuneCountInString(cleaned); n < 1 || n > title.MaxLen || !utf8.ValidString(cleaned) ||
		strings.ContainsRune(cleaned, 0) {
		return Novel{}, ErrTitleInvalid
	}
	folded := title.Fold(cleaned)
	var id uuid.UUID
	err := s.Pool.QueryRow(ctx, `SELECT novel_id FROM title_lookup WHERE folded_title = $1`, folded).Scan(&id)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		id = events.NovelID(folded)
	case err != nil:
		return Novel{}, fmt.Errorf("look up title: %w", err)
	}
	return s.moderate(ctx, id, reason,
		func(ctx context.Context, n novel.Novel) ([]events.Event, error) { return decide(ctx, n, cleaned) })
}

// moderate appends the events that decide returns to the stream of a novel, and returns the novel's new state.
func (s *Staff) moderate(
	ctx context.Context, id uuid.UUID, reason string, decide func(context.Context, novel.Novel) ([]events.Event, error),
) (Novel, error) {
	if err := checkReason(reason); err != nil {
		return Novel{}, err
	}
	// Decide on the projection, like partners' commands: the stream is long, with an event for each update.
	err := s.appendAfter(ctx, stream{events.NovelStream, id}, func(ctx context.Context) (int, decision, error) {
		n, err := s.decidedOn(ctx, id)
		return n.Version, func(ctx context.Context) ([]events.Event, error) { return decide(ctx, n) }, err
	})
	if err != nil {
		return Novel{}, err
	}
	return s.NovelByID(ctx, id)
}

const decidedOnSQL = `SELECT slug, title, state, owner_id, stream_version, details FROM title_lookup WHERE novel_id = $1`

// decidedOn returns the state of a novel for decisions, with version 0 when there is none.
func (s *Staff) decidedOn(ctx context.Context, id uuid.UUID) (novel.Novel, error) {
	n := novel.Novel{ID: id}
	var encoded []byte
	err := s.Pool.QueryRow(ctx, decidedOnSQL, id).Scan(&n.Slug, &n.Title, &n.State, &n.OwnerID, &n.Version, &encoded)
	if errors.Is(err, pgx.ErrNoRows) {
		return n, nil
	}
	if err != nil {
		return n, fmt.Errorf("read novel %s: %w", id, err)
	}
	if err := json.Unmarshal(encoded, &n.Details); err != nil {
		return n, fmt.Errorf("decode details of novel %s: %w", id, err)
	}
	return n, nil
}

// freeSlug picks the slug for the first event of a title. It returns "" when the title already has a slug.
func (s *Staff) freeSlug(ctx context.Context, n novel.Novel, spelling string) (string, error) {
	if n.Slug != "" {
		return "", nil
	}
	candidates := novel.SlugCandidates(title.Slug(spelling), n.ID)
	rows, err := s.Pool.Query(ctx, `SELECT slug FROM title_lookup WHERE slug = ANY ($1::text[])`, candidates)
	if err != nil {
		return "", fmt.Errorf("read slugs: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return "", fmt.Errorf("read slugs: %w", err)
	}
	taken := make(map[string]struct{}, len(found))
	for _, slug := range found {
		taken[slug] = struct{}{}
	}
	return novel.PickSlug(candidates, taken), nil
}

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
