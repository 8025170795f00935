package staff

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/principal"
	"novelgate/commands/refusals"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/auth"
	"novelgate/internal/database"
	"novelgate/internal/title"
)

// ErrNameTaken refuses a second integration with the same name, ignoring case.
var ErrNameTaken = errors.New("an integration of this name exists already")

// Integration is an integration as staff see it.
type Integration struct {
	ID              uuid.UUID `json:"integrationId"`
	Name            string    `json:"name"`
	Enabled         bool      `json:"enabled"`
	Capabilities    []string  `json:"capabilities"`
	PostsPerMinute  int       `json:"postsPerMinute"`
	NovelsPerMinute int       `json:"novelsPerMinute"`
	LinesPerMinute  int       `json:"linesPerMinute"` // of bulk imports
	Review          bool      `json:"review"`
	CreatedAt       time.Time `json:"createdAt"`
	// History has the latest events, oldest first, if they were asked for.
	History []HistoryEntry `db:"-" json:"history,omitzero"`
}

// CreateIntegration registers an integration with the settings in change. It ignores change.Name.
func (s *Staff) CreateIntegration(ctx context.Context, name string, change principal.Change) (Integration, error) {
	id := uuid.Must(uuid.NewV7())
	return s.decideIntegration(ctx, id, func(principal.Integration) ([]events.Event, error) {
		registered, err := principal.Register(name, s.Now())
		if err != nil {
			return nil, err
		}
		change.Name = nil
		settings, err := principal.FoldIntegration(id, []events.Recorded{{Event: registered[0]}}).Change(change)
		return append(registered, settings...), err
	})
}

// RegisterIntegration creates an integration as CreateIntegration does, and issues its first key, which never expires.
func (s *Staff) RegisterIntegration(
	ctx context.Context, name string, change principal.Change,
) (Integration, Key, auth.Secret, error) {
	made, err := s.CreateIntegration(ctx, name, change)
	if err != nil {
		return Integration{}, Key{}, auth.Secret{}, err
	}
	key, secret, err := s.IssueKey(ctx, made.ID, 0)
	return made, key, secret, err
}

// ChangeIntegration changes settings of an integration.
func (s *Staff) ChangeIntegration(ctx context.Context, id uuid.UUID, change principal.Change) (Integration, error) {
	return s.decideIntegration(ctx, id,
		func(i principal.Integration) ([]events.Event, error) { return i.Change(change) })
}

func (s *Staff) decideIntegration(
	ctx context.Context, id uuid.UUID, decide func(principal.Integration) ([]events.Event, error),
) (Integration, error) {
	err := decideOn(ctx, s, stream{events.IntegrationStream, id},
		func(history []events.Recorded) principal.Integration { return principal.FoldIntegration(id, history) }, decide)
	if err != nil {
		return Integration{}, err
	}
	return s.Integration(ctx, id.String())
}

const integrationColumns = `SELECT integration_id, name, enabled,
    array_remove(ARRAY[CASE WHEN can_create_novels THEN 'novels' END, CASE WHEN can_post THEN 'posts' END,
        CASE WHEN can_import THEN 'import' END], NULL),
    posts_per_minute, novels_per_minute, lines_per_minute, review, registered_at
FROM integrations`

// Integration finds an integration by its id or its name; principal.ErrNotFound when there is none.
func (s *Staff) Integration(ctx context.Context, idOrName string) (Integration, error) {
	id, err := uuid.Parse(idOrName)
	return find(ctx, s, "integration", fmt.Errorf("%w: %q", principal.ErrNotFound, idOrName),
		pgx.RowToStructByPos[Integration],
		integrationColumns+` WHERE ($1 AND integration_id = $2) OR (NOT $1 AND folded_name = $3)`, err == nil, id,
		title.Fold(idOrName))
}

// IntegrationWithHistory finds an integration as Integration does, with its latest hundred events.
func (s *Staff) IntegrationWithHistory(ctx context.Context, idOrName string) (Integration, error) {
	found, err := s.Integration(ctx, idOrName)
	if err != nil {
		return Integration{}, err
	}
	recorded, err := eventlog.ReadStreamEnd(ctx, s.Pool, events.IntegrationStream, found.ID, maxHistory)
	if err != nil {
		return Integration{}, err
	}
	found.History, err = historyOf(ctx, s.Pool, recorded)
	return found, err
}

// ListIntegrations lists up to limit integrations after the one with an id, oldest first: the ids begin with the time.
// A limit of 0 lists all.
func (s *Staff) ListIntegrations(ctx context.Context, after uuid.UUID, limit int) ([]Integration, error) {
	return database.Collect(ctx, s.Pool, "integrations", pgx.RowToStructByPos[Integration],
		integrationColumns+` WHERE integration_id > $1 ORDER BY integration_id LIMIT nullif($2::int, 0)`, after, limit)
}

// ListRefusals lists refused commands of an integration, newest first.
func (s *Staff) ListRefusals(ctx context.Context, f refusals.Filter) ([]refusals.Refusal, error) {
	return refusals.List(ctx, s.Pool, f)
}
