package staff

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/aggregates/principal"
	"novelgate/events"
)

// ErrNameTaken refuses a second integration with the same name, ignoring case.
var ErrNameTaken = errors.New("an integration of this name exists already")

func isNameTaken(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.ConstraintName == "integrations_name_key"
}

// Integration is an integration as staff see it.
type Integration struct {
	ID                    uuid.UUID `json:"integrationId"`
	Name                  string    `json:"name"`
	Enabled               bool      `json:"enabled"`
	Capabilities          []string  `json:"capabilities"`
	PostsPerMinute        int       `json:"postsPerMinute"`
	NovelsPerMinute       int       `json:"novelsPerMinute"`
	NovelUpdatesPerMinute *int      `json:"novelUpdatesPerMinute"` // nil: no limit
	Review                bool      `json:"review"`
	CreatedAt             time.Time `json:"createdAt"`
}

// CreateIntegration registers an integration with the settings in change. It ignores change.Name.
func (s *Staff) CreateIntegration(ctx context.Context, name string, change principal.Change) (Integration, error) {
	id := uuid.Must(uuid.NewV7())
	err := s.appendDecided(ctx, stream{events.IntegrationStream, id},
		func(context.Context, []events.Recorded) ([]events.Event, error) {
			registered, err := principal.Register(name, s.Now())
			if err != nil {
				return nil, err
			}
			change.Name = nil
			fresh := principal.FoldIntegration(id, []events.Recorded{{Event: registered[0]}})
			settings, err := fresh.Change(change)
			return append(registered, settings...), err
		})
	if isNameTaken(err) {
		return Integration{}, ErrNameTaken
	}
	if err != nil {
		return Integration{}, err
	}
	return s.Integration(ctx, id.String())
}

// ChangeIntegration changes settings of an integration.
func (s *Staff) ChangeIntegration(ctx context.Context, id uuid.UUID, change principal.Change) (Integration, error) {
	err := s.appendDecided(ctx, stream{events.IntegrationStream, id},
		func(_ context.Context, history []events.Recorded) ([]events.Event, error) {
			return principal.FoldIntegration(id, history).Change(change)
		})
	if isNameTaken(err) {
		return Integration{}, ErrNameTaken
	}
	if err != nil {
		return Integration{}, err
	}
	return s.Integration(ctx, id.String())
}

const integrationColumns = `SELECT integration_id, name, enabled, can_create_novels, can_post, posts_per_minute, novels_per_minute, novel_updates_per_minute, review, registered_at
FROM integrations`

// Integration finds an integration by its id or its name; principal.ErrNotFound when there is none.
func (s *Staff) Integration(ctx context.Context, idOrName string) (Integration, error) {
	id, err := uuid.Parse(idOrName)
	return find(ctx, s, "integration", fmt.Errorf("%w: %q", principal.ErrNotFound, idOrName), scanIntegration,
		integrationColumns+` WHERE ($1 AND integration_id = $2) OR (NOT $1 AND lower(name) = lower($3))`, err == nil, id,
		idOrName)
}

// Integrations lists all integrations, oldest first.
func (s *Staff) Integrations(ctx context.Context) ([]Integration, error) {
	return s.ListIntegrations(ctx, Place{}, 0)
}

const listIntegrationsSQL = integrationColumns + ` WHERE (registered_at, integration_id) > ($1, $2)
ORDER BY registered_at, integration_id LIMIT nullif($3::int, 0)`

// ListIntegrations lists up to limit integrations after a place, oldest first. A limit of 0 lists all.
func (s *Staff) ListIntegrations(ctx context.Context, after Place, limit int) ([]Integration, error) {
	return list(ctx, s, "integrations", scanIntegration, listIntegrationsSQL, after.At, after.ID, limit)
}

// Place returns the integration's place in the list.
func (i Integration) Place() Place { return Place{i.CreatedAt, i.ID} }

func scanIntegration(row pgx.CollectableRow) (Integration, error) {
	var i Integration
	var novels, posts bool
	if err := row.Scan(&i.ID, &i.Name, &i.Enabled, &novels, &posts, &i.PostsPerMinute, &i.NovelsPerMinute,
		&i.NovelUpdatesPerMinute, &i.Review, &i.CreatedAt); err != nil {
		return Integration{}, fmt.Errorf("scan integration: %w", err)
	}
	i.Capabilities = []string{}
	if novels {
		i.Capabilities = append(i.Capabilities, string(principal.Novels))
	}
	if posts {
		i.Capabilities = append(i.Capabilities, string(principal.Posts))
	}
	return i, nil
}
