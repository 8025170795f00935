package staff

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/problem"
)

// Decisions about several posts.
const (
	Hide    = "hide"
	Restore = "restore"
	Dismiss = "dismiss" // the reports
)

var postDecisions = map[string]postDecision{Hide: hidePost, Restore: restorePost, Dismiss: dismissReports}

const (
	// MaxDecided is the maximum number of posts of DecidePosts.
	MaxDecided = 500
	// decidedAtOnce is the number of posts of one transaction. Imports wait meanwhile: a post takes a few queries.
	decidedAtOnce = 50
)

// Decided is the outcome of a decision about one of several posts.
type Decided struct {
	PostID  uuid.UUID `json:"postId"`
	Problem *Refusal  `json:"problem"` // nil: done, now or by an earlier request with the same key
}

// Refusal says why a decision was refused.
type Refusal struct {
	Code   problem.Code `json:"code"`
	Detail string       `json:"detail"`
}

// Decisions are the outcomes of decisions about several posts, in the order of the command.
type Decisions struct {
	Items []Decided `json:"items"`

	replayed, mismatch bool
}

// Mismatch reports whether the command was refused because another one had the same delivery.
func (d *Decisions) Mismatch() bool { return d.mismatch }

// DecidePosts executes Hide, Restore or Dismiss for up to MaxDecided different posts, with an event each. A refusal of
// one is its outcome, and does not keep the others from being carried out. After an error, some may have been: a retry
// with the same delivery completes the command. A different command with the same delivery changes nothing, and has the
// outcomes of the posts that both name.
func (s *Staff) DecidePosts(ctx context.Context, decision string, ids []uuid.UUID, reason string) (Decisions, error) {
	if err := requireReason(reason); err != nil {
		return Decisions{}, err
	}
	all := Decisions{Items: []Decided{}}
	for chunk := range slices.Chunk(ids, decidedAtOnce) {
		var outcomes []Decided
		err := eventlog.Under(ctx, s.Pool, func(tx pgx.Tx) (err error) {
			outcomes, err = s.decideChunk(ctx, tx, &all, postDecisions[decision], chunk, reason)
			return err
		})
		if err != nil {
			return Decisions{}, err
		}
		all.Items = append(all.Items, outcomes...)
	}
	return all, nil
}

// decideChunk decides about some posts and appends the events.
func (s *Staff) decideChunk(
	ctx context.Context, tx pgx.Tx, all *Decisions, decide postDecision, ids []uuid.UUID, reason string,
) ([]Decided, error) {
	done, err := s.decidedBefore(ctx, tx, all)
	if err != nil {
		return nil, err
	}
	var outcomes []Decided
	var recorded []events.Recorded
	for _, id := range ids {
		if done[id] {
			outcomes = append(outcomes, Decided{PostID: id})
			continue
		}
		if all.mismatch {
			continue
		}
		version, decided, err := decidePost(ctx, tx, id, reason, decide)
		if refused := Problem(err); refused != nil {
			outcomes = append(outcomes, Decided{id, &Refusal{refused.Code, refused.Detail}})
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := refuseKeys(decided); err != nil {
			return nil, err
		}
		of, commandID := *s, uuid.Must(uuid.NewV7()).String()
		if s.Delivery != nil {
			commandID = s.Delivery.Key
			of.Delivery = &Delivery{
				Key: commandID, Source: s.Delivery.Source + "/" + id.String(), Canonical: s.Delivery.Canonical,
			}
		}
		recorded = append(recorded, of.record(stream{events.PostStream, id}, version, commandID, decided)...)
		outcomes = append(outcomes, Decided{PostID: id})
	}
	if len(recorded) == 0 {
		return outcomes, nil
	}
	return outcomes, s.append(ctx, tx, recorded)
}

const findDecisionsSQL = `SELECT stream_id, salt, fingerprint FROM events
WHERE event_id = $1 AND starts_with(event_source, $2) AND integration_id IS NULL AND (stream_type <> 'post' OR stream_version > 1)`

// decidedBefore returns the posts that the delivery has decided about.
func (s *Staff) decidedBefore(ctx context.Context, db database.Querier, all *Decisions) (map[uuid.UUID]bool, error) {
	if s.Delivery == nil {
		return nil, nil
	}
	done := map[uuid.UUID]bool{}
	_, err := database.Collect(ctx, db, "decisions", func(row pgx.CollectableRow) (id uuid.UUID, err error) {
		var salt, fingerprint uuid.NullUUID
		if err := row.Scan(&id, &salt, &fingerprint); err != nil {
			return id, fmt.Errorf("scan decision: %w", err)
		}
		done[id] = true
		all.mismatch = all.mismatch || events.Fingerprint(fingerprint.UUID).Differs(salt, s.Delivery.Canonical)
		return id, nil
	}, findDecisionsSQL, s.Delivery.Key, s.Delivery.Source+"/")
	all.replayed = all.replayed || len(done) > 0 && len(all.Items) == 0
	return done, err
}
