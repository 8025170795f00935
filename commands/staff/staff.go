// Package staff carries out what the host platform's staff decide: integrations, keys, the moderation of novels.
// The command line and the admin API call it; every action is an event with its actor.
package staff

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/access"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/projections"
)

// attempts is how often a command is decided again after a conflict.
const attempts = 10

// Staff carries out commands for one actor.
type Staff struct {
	Pool  *pgxpool.Pool
	Actor string // "staff:<name>", as the events record it
	Now   func() time.Time
	// Delivery makes the command idempotent: repeated with the same one it fails with a ReplayedError. Nil: every call
	// is a command of its own.
	Delivery *Delivery
}

// stream is what a command appends to.
type stream struct {
	kind string
	id   uuid.UUID
}

// appendDecided reads a stream, lets decide look at it and appends what it returns, again after each conflict.
func (s *Staff) appendDecided(ctx context.Context, st stream, decide func(ctx context.Context, history []events.Recorded) ([]events.Event, error)) error {
	commandID := uuid.Must(uuid.NewV7()).String()
	if s.Delivery != nil {
		commandID = s.Delivery.Key
	}
	var err error
	for attempt := range attempts {
		if attempt > 0 {
			// Jitter, so that two who collided do not collide again.
			time.Sleep(time.Duration(rand.Int64N(int64(10 * time.Millisecond)))) //nolint:gosec // not a secret
		}
		history, readErr := eventlog.ReadStream(ctx, s.Pool, st.id, 0)
		if readErr != nil {
			return readErr
		}
		// After the history: whoever sees what a twin of this command has done must also see that it was its twin.
		if readErr := s.replayed(ctx); readErr != nil {
			return readErr
		}
		decided, refusal := decide(ctx, history)
		if refusal != nil || len(decided) == 0 {
			return refusal
		}
		if err = s.append(ctx, s.record(st, len(history), commandID, decided)); err == nil {
			return nil
		}
		if !eventlog.IsConflict(err) || isNameTaken(err) {
			return err
		}
	}
	return fmt.Errorf("gave up after %d conflicts: %w", attempts, err)
}

func (s *Staff) record(st stream, version int, commandID string, decided []events.Event) []events.Recorded {
	batch := uuid.New()
	recorded := make([]events.Recorded, len(decided))
	for i, event := range decided {
		source := "staff/" + st.kind + "s/" + st.id.String()
		if s.Delivery != nil {
			source = s.Delivery.Source
		}
		if i > 0 {
			source += "#" + strconv.Itoa(i+1)
		}
		recorded[i] = events.Recorded{
			StreamType: st.kind, StreamID: st.id, StreamVersion: version + i + 1, ID: commandID, Source: source, Event: event,
			Salt:     uuid.NullUUID{UUID: uuid.New(), Valid: true},
			Metadata: events.Metadata{Actor: s.Actor, Correlation: commandID, Batch: batch},
		}
	}
	return recorded
}

// notifyAccessSQL tells every replica that an integration, a person or a key has changed.
const notifyAccessSQL = `SELECT pg_notify($1, '')`

func (s *Staff) append(ctx context.Context, recorded []events.Recorded) error {
	batch := &pgx.Batch{}
	if err := errors.Join(eventlog.Queue(batch, recorded), projections.QueueInline(ctx, batch, recorded)); err != nil { //nolint:contextcheck // queueing waits for nothing
		return err
	}
	eventlog.QueueNotification(batch)
	if kind := recorded[0].StreamType; kind == events.IntegrationStream || kind == events.PersonStream {
		batch.Queue(notifyAccessSQL, access.Channel)
	}
	if err := s.Pool.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	return nil
}
