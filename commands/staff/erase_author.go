package staff

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"novelgate/aggregates/author"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/projections"
)

// ErrNotSealed is returned when the ledger does not come as far as what has to be erased. What could be erased is; the
// command goes on when it is repeated.
var ErrNotSealed = errors.New(
	"the ledger has not sealed all of it yet: repeat the command in a moment, while `novelgate serve` is running")

// Erasure says what was erased of an author.
type Erasure struct {
	AuthorID uuid.UUID `json:"authorId"`
	// the author's that were found; those that came in during the erasure are erased and not counted
	Comments  int       `json:"comments"`
	Decisions int       `json:"decisions"` // about the author
	ErasedAt  time.Time `json:"erasedAt"`  // when this was recorded last
}

// EraseAuthor erases for ever who an author is and what they wrote, up to now: from the log, and with AuthorErased from
// everything that is made of it. Repeated, it erases what has come since, and what an interrupted command has left.
//
// The comments are found in the table posts, which forgets them at AuthorErased: so they are erased before that is
// recorded. What posts did not have yet, up to AuthorErased, is looked for in the log itself, after that.
func (s *Staff) EraseAuthor(ctx context.Context, name AuthorName, reason string) (Erasure, error) {
	if err := requireReason(reason); err != nil {
		return Erasure{}, err
	}
	ref, err := author.Ref(name.IntegrationID, name.ExternalUUID)
	if err != nil {
		return Erasure{}, err
	}
	if _, err := s.Integration(ctx, name.IntegrationID.String()); err != nil {
		return Erasure{}, err
	}
	// The log loses words before AuthorErased says so: whoever compares tables with it has to know.
	withdraw, err := projections.AnnounceErasure(ctx, s.Pool)
	if err != nil {
		return Erasure{}, err
	}
	defer withdraw()
	e := eraser{Staff: s, name: name}
	found, err := e.find(ctx)
	if err != nil {
		return Erasure{}, err
	}
	if found.nothing() {
		return e.again(ctx)
	}
	// Not a single one twice: what was interrupted is found by its own record.
	if _, err := e.again(ctx); err != nil && !errors.Is(err, ErrNoSuchAuthor) {
		return Erasure{}, err
	}
	if err := e.erase(ctx, found.projected); err != nil {
		return Erasure{}, err
	}
	err = s.appendDecided(ctx, stream{events.AuthorStream, name.id()},
		func(_ context.Context, history []events.Recorded) ([]events.Event, error) {
			return author.Fold(ref, history).Erase(reason, len(found.projected)+len(found.rest), found.decisions, found.searched)
		})
	if err != nil {
		return Erasure{}, err
	}
	done, err := e.again(ctx)
	done.Comments, done.Decisions = len(found.projected)+len(found.rest), found.decisions
	return done, err
}

// eraser erases one author.
type eraser struct {
	*Staff
	name AuthorName
}

// again finishes every erasure of the author that is on record. It fails with ErrNoSuchAuthor when there is none.
func (e eraser) again(ctx context.Context) (Erasure, error) {
	history, err := eventlog.ReadStream(ctx, e.Pool, events.AuthorStream, e.name.id(), 0)
	if err != nil {
		return Erasure{}, err
	}
	done := Erasure{AuthorID: e.name.id()}
	for i := range history {
		erased, ok := history[i].Event.(events.AuthorErased)
		if !ok {
			continue
		}
		done.ErasedAt = history[i].RecordedAt.UTC()
		searched, err := searchedBefore(erased, history[i].Position)
		if err != nil {
			return Erasure{}, fmt.Errorf("read erasure of author %s: %w", e.name.id(), err)
		}
		if err := e.settled(ctx, history[i].Position); err != nil {
			return Erasure{}, err
		}
		left, err := e.scan(ctx, searched, history[i].Position)
		if err != nil {
			return Erasure{}, err
		}
		if err := e.erase(ctx, append(left, e.name.id())); err != nil {
			return Erasure{}, err
		}
	}
	if done.ErasedAt.IsZero() {
		return Erasure{}, ErrNoSuchAuthor
	}
	return done, nil
}

// searchedBefore returns behind which position comments may be left that an erasure, which stands at a position of the
// log, has to erase.
//
// What an erasure says to have searched is a place of the cluster in which it was recorded, and is not translated when
// the log moves to another one: data never changes. Then all of the log in front of it is searched. That takes as long
// as reading the log, but only for authors who were erased before a move.
func searchedBefore(erased events.AuthorErased, at events.Position) (events.Position, error) {
	searched, err := events.ParsePosition(erased.Searched)
	if err != nil {
		return events.Position{}, err
	}
	if at.TransactionID <= events.Frozen || searched.Compare(at) >= 0 {
		return events.Position{}, nil
	}
	return searched, nil
}
