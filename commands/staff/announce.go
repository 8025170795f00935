package staff

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/principal"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// ServiceActor is the actor of events that no command causes.
const ServiceActor = "service"

const (
	announceEvery = 2 * time.Second
	// expiryNotice is how long before the expiry of a key its integration is notified.
	expiryNotice = 7 * 24 * time.Hour
)

// Sources of announcements. Source and id are unique, so concurrent replicas append an announcement once.
const (
	importsSource = "service/imports"
	keysSource    = "service/keys"
)

const (
	completedSQL = `SELECT integration_id, import_id, lines, created, updated, unchanged, replayed, failed, parent_missing
FROM imports WHERE state = 'completed' AND purged_at IS NULL AND NOT announced ORDER BY ended_at LIMIT 100`
	announcedSQL = `UPDATE imports SET announced = true WHERE import_id = $1`

	// $1: now; $2: end of the notice period; $3: keysSource. The event id is the delivery of AnnounceDue, and the last
	// condition is that of the index events_id_key.
	expiringSQL = `SELECT integration_id, key_id, expires_at FROM api_keys AS k
WHERE revoked_at IS NULL AND expires_at > $1 AND expires_at <= $2 AND NOT EXISTS (SELECT FROM events AS e
    WHERE e.event_id = k.key_id || '/' || (extract(epoch FROM k.expires_at) * 1000000)::bigint AND e.event_source = $3
        AND e.integration_id IS NULL AND (e.stream_type <> 'post' OR e.stream_version > 1))
ORDER BY expires_at LIMIT 100`
)

// Announce appends ImportCompleted and KeyExpiring events until ctx ends. Every replica may run it.
func (s *Staff) Announce(ctx context.Context, logger *slog.Logger) {
	for {
		if err := s.AnnounceDue(ctx); err != nil && ctx.Err() == nil {
			logger.WarnContext(ctx, "some completed imports or expiring keys are not announced yet", slog.Any("error", err))
		}
		if !eventlog.Sleep(ctx, announceEvery) {
			return
		}
	}
}

// completedImport is a completed import without an announcement.
type completedImport struct {
	integrationID uuid.UUID
	event         events.ImportCompleted
}

func scanCompleted(row pgx.CollectableRow) (c completedImport, err error) {
	e := &c.event
	err = row.Scan(&c.integrationID, &e.ImportID, &e.Lines, &e.Created, &e.Updated, &e.Unchanged, &e.Replayed, &e.Failed,
		&e.ParentMissing)
	return c, err
}

// expiringKey is a key that expires soon, without an announcement.
type expiringKey struct {
	IntegrationID uuid.UUID
	KeyID         uuid.UUID
	ExpiresAt     time.Time
}

// AnnounceDue appends an event for each completed import that is not purged and for each key that expires soon, if
// there is none yet. One call announces at most 100 imports and 100 keys.
func (s *Staff) AnnounceDue(ctx context.Context) error {
	completed, err := database.Collect(ctx, s.Pool, "completed imports", scanCompleted, completedSQL)
	if err != nil {
		return err
	}
	now := s.Now()
	expiring, err := database.Collect(ctx, s.Pool, "expiring keys", pgx.RowToStructByPos[expiringKey], expiringSQL, now,
		now.Add(expiryNotice), keysSource)
	if err != nil {
		return err
	}
	var failed error // an error of one announcement does not stop the others
	for _, c := range completed {
		err := s.withDelivery(c.event.ImportID.String(), importsSource).announceImport(ctx, c.integrationID, c.event)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("announce import %s: %w", c.event.ImportID, err))
		}
	}
	for _, k := range expiring {
		delivery := k.KeyID.String() + "/" + strconv.FormatInt(k.ExpiresAt.UnixMicro(), 10)
		_, err := s.withDelivery(delivery, keysSource).decideIntegration(ctx, k.IntegrationID,
			func(i principal.Integration) ([]events.Event, error) { return i.WarnOfExpiry(k.KeyID, k.ExpiresAt) })
		var replayed *ReplayedError
		if err != nil && !errors.As(err, &replayed) {
			failed = errors.Join(failed, fmt.Errorf("announce the expiry of key %s: %w", k.KeyID, err))
		}
	}
	return failed
}

// withDelivery returns a Staff for one command with a delivery.
func (s *Staff) withDelivery(key, source string) *Staff {
	by := *s
	by.Delivery = &Delivery{Key: key, Source: source}
	return &by
}

const integrationVersionSQL = `SELECT stream_version FROM integrations WHERE integration_id = $1`

// announceImport appends the end of an import, and marks the import as announced. The decision only needs the version
// of the integration. It is read from the projection, because the stream is long: it has an event for each import.
func (s *Staff) announceImport(ctx context.Context, integration uuid.UUID, completed events.ImportCompleted) error {
	st := stream{events.IntegrationStream, integration}
	err := s.execute(ctx, st, func(db database.Querier) (int, []events.Event, error) {
		i := principal.Integration{ID: integration}
		err := db.QueryRow(ctx, integrationVersionSQL, integration).Scan(&i.Version)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return 0, nil, fmt.Errorf("read the version of an integration: %w", err)
		}
		decided, err := i.CompleteImport(completed)
		return i.Version, decided, err
	})
	var replayed *ReplayedError
	if err != nil && !errors.As(err, &replayed) {
		return err
	}
	if _, err := s.Pool.Exec(ctx, announcedSQL, completed.ImportID); err != nil {
		return fmt.Errorf("note that an import is announced: %w", err)
	}
	return nil
}
