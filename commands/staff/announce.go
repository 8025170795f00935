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

// keysSource is the source of announcements. Source and id are unique, so concurrent replicas append one once.
const keysSource = "service/keys"

const (
	// $1: now; $2: end of the notice period; $3: keysSource. The event id is the delivery of AnnounceDue, and the last
	// condition is that of the index events_id_key.
	expiringSQL = `SELECT integration_id, key_id, expires_at FROM api_keys AS k
WHERE revoked_at IS NULL AND expires_at > $1 AND expires_at <= $2 AND NOT EXISTS (SELECT FROM events AS e
    WHERE e.event_id = k.key_id || '/' || (extract(epoch FROM k.expires_at) * 1000000)::bigint AND e.event_source = $3
        AND e.integration_id IS NULL AND (e.stream_type <> 'post' OR e.stream_version > 1))
ORDER BY expires_at LIMIT 100`
)

// Announce appends KeyExpiring events until ctx ends. Every replica may run it.
func (s *Staff) Announce(ctx context.Context, logger *slog.Logger) {
	for {
		if err := s.AnnounceDue(ctx); err != nil && ctx.Err() == nil {
			logger.WarnContext(ctx, "some expiring keys are not announced yet", slog.Any("error", err))
		}
		if !eventlog.Sleep(ctx, announceEvery) {
			return
		}
	}
}

// expiringKey is a key that expires soon, without an announcement.
type expiringKey struct {
	IntegrationID uuid.UUID
	KeyID         uuid.UUID
	ExpiresAt     time.Time
}

// AnnounceDue appends an event for each key that expires soon, if there is none yet. One call announces at most 100
// keys.
func (s *Staff) AnnounceDue(ctx context.Context) error {
	now := s.Now()
	expiring, err := database.Collect(ctx, s.Pool, "expiring keys", pgx.RowToStructByPos[expiringKey], expiringSQL, now,
		now.Add(expiryNotice), keysSource)
	if err != nil {
		return err
	}
	var failed error // an error of one announcement does not stop the others
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
