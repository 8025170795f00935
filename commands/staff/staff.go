// Package staff executes the commands of staff: integrations, keys, authors, and the moderation of novels and posts.
// The command line and the admin API call it. Every action is recorded as an event with its actor.
package staff

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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

// attempts is the number of decisions of a command that has conflicts.
const attempts = 10

// Staff executes commands for one actor.
type Staff struct {
	Pool  *pgxpool.Pool
	Actor string // "staff:<name>", recorded in the events
	Now   func() time.Time
	// Delivery makes the command idempotent: a retry with the same delivery fails with a ReplayedError. Nil: every call is
	// a new command.
	Delivery *Delivery
}

// stream is the stream of an aggregate.
type stream struct {
	kind string
	id   uuid.UUID
}

// decision returns the events to append to an aggregate that was read.
type decision func(context.Context) ([]events.Event, error)

// appendDecided reads a stream and appends the events that decide returns. It repeats both after a conflict.
func (s *Staff) appendDecided(
	ctx context.Context, st stream, decide func(ctx context.Context, history []events.Recorded) ([]events.Event, error),
) error {
	return s.appendAfter(ctx, st, func(ctx context.Context) (int, decision, error) {
		history, err := eventlog.ReadStream(ctx, s.Pool, st.kind, st.id, 0)
		return len(history), func(ctx context.Context) ([]events.Event, error) { return decide(ctx, history) }, err
	})
}

// appendAfter reads an aggregate with its version, decides, and appends the decided events. It repeats all steps after
// a conflict.
func (s *Staff) appendAfter(
	ctx context.Context, st stream, read func(context.Context) (version int, decide decision, err error),
) error {
	commandID := uuid.Must(uuid.NewV7()).String()
	if s.Delivery != nil {
		commandID = s.Delivery.Key
	}
	var err error
	for attempt := range attempts {
		if attempt > 0 {
			// Jitter, so that two writers do not collide again.
			time.Sleep(time.Duration(rand.Int64N(int64(10 * time.Millisecond)))) //nolint:gosec // not a secret
		}
		// Read the aggregate before the delivery. If the same command commits in between, replayed finds its delivery. In the
		// other order the command would be decided on its own outcome, and refused.
		version, decide, readErr := read(ctx)
		if readErr != nil {
			return readErr
		}
		if readErr := s.replayed(ctx); readErr != nil {
			return readErr
		}
		decided, refusal := decide(ctx)
		if refusal != nil || len(decided) == 0 {
			return refusal
		}
		if err = s.append(ctx, s.record(st, version, commandID, decided)); err == nil {
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
		salt := uuid.New()
		metadata := events.Metadata{Actor: s.Actor, Correlation: commandID, Batch: batch}
		if i == 0 && s.Delivery != nil && s.Delivery.Canonical != nil {
			metadata.Fingerprint = events.FingerprintOf(salt, s.Delivery.Canonical)
		}
		recorded[i] = events.Recorded{
			StreamType: st.kind, StreamID: st.id, StreamVersion: version + i + 1, ID: commandID, Source: source, Event: event,
			Salt: uuid.NullUUID{UUID: salt, Valid: true}, Metadata: metadata,
		}
	}
	return recorded
}

// notifyAccessSQL notifies every replica that an integration, a staff user or a key has changed.
const notifyAccessSQL = `SELECT pg_notify($1, '')`

// lockNamesSQL serialises the transactions that name an integration. Otherwise a transaction could reuse a name before
// the transaction that releases the name, in the order of the log, and a rebuild of the table would fail. The lock
// assigns no transaction id, so the append is still the first write.
const lockNamesSQL = `SELECT pg_advisory_xact_lock(5282390713694157)`

func namesIntegration(recorded events.Recorded) bool {
	switch recorded.Event.(type) {
	case events.IntegrationRegistered, events.IntegrationRenamed:
		return true
	default:
		return false
	}
}

func (s *Staff) append(ctx context.Context, recorded []events.Recorded) error {
	batch := &pgx.Batch{}
	if slices.ContainsFunc(recorded, namesIntegration) {
		batch.Queue(lockNamesSQL)
	}
	if err := errors.Join(eventlog.Queue(batch, recorded), projections.QueueInline(ctx, batch, recorded)); err != nil {
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
