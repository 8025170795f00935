// Package staff executes the commands of staff: integrations, keys, authors, and the moderation of novels and posts.
// The command line calls it, and API serves it below /api/admin, also to the command line of another machine (Remote);
// docs/staff.md and docs/openapi.yaml describe the routes. The events of a command name its actor.
package staff

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/auth"
	"novelgate/internal/database"
	"novelgate/internal/names"
	"novelgate/projections"
)

// Staff executes commands for one actor.
type Staff struct {
	Pool  *pgxpool.Pool
	Actor string // "staff:<name>", recorded in the events
	Now   func() time.Time
	// Delivery makes the command idempotent: a retry with the same delivery fails with a ReplayedError. Nil: every call is
	// a new command.
	Delivery *Delivery
}

// Delivery identifies a command, so that a retry is recognised. (Key, Source) is unique.
type Delivery struct {
	Key    string // the Idempotency-Key, which becomes the id of the event
	Source string // CloudEvents source of the command's first event
	// Canonical is the normalised command. Its fingerprint is stored.
	Canonical []byte
}

// ReplayedError means that the command is a retry. It has the first event of the original command.
type ReplayedError struct {
	StreamID uuid.UUID
	Event    events.Event
	Mismatch bool // the recorded command was different
}

func (e *ReplayedError) Error() string { return "the command was carried out before" }

// Refusals of reasons.
var (
	ErrReasonRequired = errors.New("a reason is required")
	ErrReasonInvalid  = errors.New("a reason must be valid UTF-8 without the character NUL")
)

// checkReason refuses an invalid reason with ErrReasonInvalid. PostgreSQL cannot parse JSON with the character NUL.
func checkReason(reason string) error {
	if !utf8.ValidString(reason) || strings.ContainsRune(reason, 0) {
		return ErrReasonInvalid
	}
	return nil
}

// requireReason is checkReason for decisions with a required reason. It refuses a blank reason with ErrReasonRequired.
func requireReason(reason string) error {
	if strings.TrimSpace(reason) == "" {
		return ErrReasonRequired
	}
	return checkReason(reason)
}

// ErrHasKey refuses a name, a member or a reason with an API key, without repeating it.
var ErrHasKey = errors.New("a name, a member or a reason has an API key in it, and the log would keep it")

// refuseKeys fails with ErrHasKey if what cannot be erased of an event has an API key, perhaps pasted as a name.
func refuseKeys(decided []events.Event) error {
	for _, event := range decided {
		stored, err := events.Encode(event)
		if err != nil {
			return err
		}
		if auth.HasKey(string(stored.Data)) {
			return ErrHasKey
		}
	}
	return nil
}

// stream is the stream of an aggregate.
type stream struct {
	kind string
	id   uuid.UUID
}

// decideOn folds the stream of an aggregate and executes a decision on it.
func decideOn[A any](
	ctx context.Context, s *Staff, st stream, fold func(history []events.Recorded) A,
	decide func(A) ([]events.Event, error),
) error {
	return s.execute(ctx, st, func(db database.Querier) (int, []events.Event, error) {
		history, err := eventlog.ReadStream(ctx, db, st.kind, st.id, 0)
		if err != nil {
			return 0, nil, err
		}
		decided, err := decide(fold(history))
		return len(history), decided, err
	}, nil)
}

// decision reads an aggregate through db, and returns the version of its stream and the decided events.
type decision func(db database.Querier) (version int, decided []events.Event, err error)

// execute takes the lock of the log, decides, and appends the decided events. If it has appended something, it calls
// then in the same transaction; nil: nothing follows.
func (s *Staff) execute(ctx context.Context, st stream, decide decision, then func(tx pgx.Tx) error) error {
	commandID := uuid.Must(uuid.NewV7()).String()
	if s.Delivery != nil {
		commandID = s.Delivery.Key
	}
	return eventlog.Under(ctx, s.Pool, func(tx pgx.Tx) error {
		if err := s.replayed(ctx, tx); err != nil {
			return err
		}
		version, decided, err := decide(tx)
		if err != nil || len(decided) == 0 {
			return err
		}
		if err := refuseKeys(decided); err != nil {
			return err
		}
		if err := s.append(ctx, tx, s.record(st, version, commandID, decided)); err != nil || then == nil {
			return err
		}
		return then(tx)
	})
}

const findDeliverySQL = `SELECT stream_id, event_type, data, salt, fingerprint FROM events
WHERE event_id = $1 AND event_source = $2 AND integration_id IS NULL AND (stream_type <> 'post' OR stream_version > 1)`

// replayed fails with a ReplayedError when the delivery is on record.
func (s *Staff) replayed(ctx context.Context, db database.Querier) error {
	if s.Delivery == nil {
		return nil
	}
	found := &ReplayedError{}
	var stored events.Stored
	var salt, fingerprint uuid.NullUUID
	err := db.QueryRow(ctx, findDeliverySQL, s.Delivery.Key, s.Delivery.Source).Scan(&found.StreamID, &stored.Type,
		&stored.Data, &salt, &fingerprint)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("find delivery: %w", err)
	}
	if found.Event, err = events.Decode(stored); err != nil {
		return fmt.Errorf("decode delivery: %w", err)
	}
	found.Mismatch = events.Fingerprint(fingerprint.UUID).Differs(salt, s.Delivery.Canonical)
	return found
}

// record returns the decided events with their versions, sources and metadata, ready to append. version is that of the
// stream.
func (s *Staff) record(st stream, version int, commandID string, decided []events.Event) []events.Recorded {
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
		metadata := events.Metadata{Actor: s.Actor, Correlation: commandID}
		if i == 0 && s.Delivery != nil {
			metadata.Fingerprint = events.FingerprintOf(salt, s.Delivery.Canonical)
		}
		recorded[i] = events.Recorded{
			StreamType: st.kind, StreamID: st.id, StreamVersion: version + i + 1, ID: commandID, Source: source, Event: event,
			Salt: uuid.NullUUID{UUID: salt, Valid: true}, Metadata: metadata,
		}
	}
	return recorded
}

// append appends events. It fails with ErrNameTaken when the name of an integration is taken.
func (s *Staff) append(ctx context.Context, tx pgx.Tx, recorded []events.Recorded) error {
	batch := &pgx.Batch{}
	if err := projections.QueueAppend(ctx, batch, recorded); err != nil {
		return err
	}
	err := tx.SendBatch(ctx, batch).Close()
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused) && refused.ConstraintName == "integrations_name_key":
		return ErrNameTaken
	default:
		return fmt.Errorf("append: %w", err)
	}
}

// find reads the one row of a query. It fails with notFound when there is none. what names the object in errors.
func find[T any](
	ctx context.Context, s *Staff, what string, notFound error, scan pgx.RowToFunc[T], sql string, args ...any,
) (found T, err error) {
	rows, err := database.Collect(ctx, s.Pool, what, scan, sql, args...)
	if err != nil {
		return found, err
	}
	if len(rows) == 0 {
		return found, notFound
	}
	return rows[0], nil
}

// HistoryEntry is one event of a novel, a post, an author or an integration.
type HistoryEntry struct {
	Version    int       `json:"version"`
	Type       string    `json:"type"`
	Actor      string    `json:"actor"`
	ActorName  string    `json:"actorName,omitzero"` // of an actor that is an integration
	RecordedAt time.Time `json:"recordedAt"`
	Summary    string    `json:"summary,omitzero"` // what it records besides its type: see events.Summary
	Data       any       `json:"data"`
	Personal   any       `json:"personal,omitzero"` // personal data; absent after erasure
}

// historyOf describes events, with the names of their actors.
func historyOf(
	ctx context.Context, db database.Querier, recorded []events.Recorded,
) ([]HistoryEntry, error) {
	var actors []uuid.UUID
	for _, r := range recorded {
		if id := names.Integration(r.Metadata.Actor); !slices.Contains(actors, id) {
			actors = append(actors, id)
		}
	}
	called, err := names.Of(ctx, db, actors...)
	if err != nil {
		return nil, err
	}
	history := make([]HistoryEntry, len(recorded))
	for i, r := range recorded {
		stored, err := events.Encode(r.Event)
		if err != nil {
			return nil, err
		}
		history[i] = HistoryEntry{
			Version: r.StreamVersion, Type: r.Event.Type(), Actor: r.Metadata.Actor,
			ActorName: called[names.Integration(r.Metadata.Actor)], RecordedAt: r.RecordedAt,
			Summary: events.Summary(stored.Type, stored.Data), Data: r.Event, Personal: events.Personal(r.Event),
		}
	}
	return history, nil
}
