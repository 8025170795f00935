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
	ErrNovelNotFound  = errors.New("no novel has this title")
	ErrNoSuchNovel    = errors.New("no such novel")
	ErrTitleInvalid   = fmt.Errorf("a title must have 1 to %d characters of valid UTF-8", title.MaxLen)
	ErrReasonRequired = errors.New("a reason is required")
)

// Host is the owner of a novel that the host platform publishes.
const Host = "host"

// Novel is a novel as staff see it, with the members of SPEC 2.1 and 2.2.
type Novel struct {
	NovelID       uuid.UUID   `json:"novelId"`
	Slug          string      `json:"slug"`
	Title         string      `json:"novel"`
	Author        string      `json:"author"`
	Synopsis      string      `json:"synopsis"`
	CoverURL      string      `json:"coverUrl"`
	Genres        []string    `json:"genres"`
	Language      string      `json:"language"`
	ReadingStatus string      `json:"readingStatus"`
	Owner         string      `json:"owner"` // an integration's id, or "host"
	State         novel.State `json:"state"`
}

// PublishNovel makes a title canonical: it creates an unknown one and adopts a partner's.
func (s *Staff) PublishNovel(ctx context.Context, spelling, reason string) (Novel, error) {
	cleaned := title.Clean(spelling)
	if n := utf8.RuneCountInString(cleaned); n < 1 || n > title.MaxLen || !utf8.ValidString(cleaned) || strings.ContainsRune(cleaned, 0) {
		return Novel{}, ErrTitleInvalid
	}
	return s.moderate(ctx, cleaned, func(ctx context.Context, n novel.Novel) (events.Event, error) {
		slug := ""
		if !n.Exists() {
			var err error
			if slug, err = s.freeSlug(ctx, cleaned, n.ID); err != nil {
				return nil, err
			}
		}
		return n.Publish(cleaned, slug, reason)
	})
}

// ApproveNovel lets a pending or rejected novel in.
func (s *Staff) ApproveNovel(ctx context.Context, spelling, reason string) (Novel, error) {
	return s.moderateExisting(ctx, spelling, reason, novel.Novel.Approve)
}

// RejectNovel declines a pending or approved novel.
func (s *Staff) RejectNovel(ctx context.Context, spelling, reason string) (Novel, error) {
	return s.moderateExisting(ctx, spelling, reason, novel.Novel.Reject)
}

func (s *Staff) moderateExisting(ctx context.Context, spelling, reason string, decide func(novel.Novel, string) (events.Event, error)) (Novel, error) {
	if reason == "" {
		return Novel{}, ErrReasonRequired
	}
	return s.moderate(ctx, spelling, func(_ context.Context, n novel.Novel) (events.Event, error) {
		if !n.Exists() {
			return nil, fmt.Errorf("%w: %q", ErrNovelNotFound, title.Clean(spelling))
		}
		return decide(n, reason)
	})
}

// moderate finds the novel with a title, minting its id when there is none, and appends what decide decides.
func (s *Staff) moderate(ctx context.Context, spelling string, decide func(context.Context, novel.Novel) (events.Event, error)) (Novel, error) {
	folded := title.Fold(spelling)
	var id uuid.UUID
	err := s.Pool.QueryRow(ctx, `SELECT novel_id FROM title_lookup WHERE folded_title = $1`, folded).Scan(&id)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		id = events.NovelID(folded)
	case err != nil:
		return Novel{}, fmt.Errorf("look up title: %w", err)
	}
	err = s.appendDecided(ctx, stream{events.NovelStream, id}, func(ctx context.Context, history []events.Recorded) ([]events.Event, error) {
		n := novel.Novel{ID: id}
		for _, recorded := range history {
			n = n.Apply(recorded.Event)
		}
		event, err := decide(ctx, n)
		if err != nil {
			return nil, err
		}
		return []events.Event{event}, nil
	})
	if err != nil {
		return Novel{}, err
	}
	return s.Novel(ctx, spelling)
}

func (s *Staff) freeSlug(ctx context.Context, spelling string, id uuid.UUID) (string, error) {
	candidates := novel.SlugCandidates(title.Slug(spelling), id)
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

const novelColumns = `SELECT novel_id, slug, title, state, owner_id, details FROM title_lookup`

// Novel finds a novel by its title; ErrNovelNotFound when there is none.
func (s *Staff) Novel(ctx context.Context, spelling string) (Novel, error) {
	return find(ctx, s, "novel", fmt.Errorf("%w: %q", ErrNovelNotFound, title.Clean(spelling)), scanNovel,
		novelColumns+` WHERE folded_title = $1`, title.Fold(spelling))
}

func scanNovel(row pgx.CollectableRow) (Novel, error) {
	var n Novel
	var owner uuid.NullUUID
	var encoded []byte
	if err := row.Scan(&n.NovelID, &n.Slug, &n.Title, &n.State, &owner, &encoded); err != nil {
		return Novel{}, fmt.Errorf("scan novel: %w", err)
	}
	n.Owner = Host
	if owner.Valid {
		n.Owner = owner.UUID.String()
	}
	var d novel.Details
	if err := json.Unmarshal(encoded, &d); err != nil {
		return Novel{}, fmt.Errorf("decode details of novel %s: %w", n.NovelID, err)
	}
	n.Author, n.Synopsis, n.CoverURL, n.Language, n.ReadingStatus = d.Author, d.Synopsis, d.CoverURL, d.Language, d.ReadingStatus
	n.Genres = append([]string{}, d.Genres...) // never nil
	return n, nil
}
