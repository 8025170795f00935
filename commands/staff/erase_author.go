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

// ErrNotSealed is returned when the ledger has not sealed all events to erase. Part of them may be erased; repeat the
// command to continue.
var ErrNotSealed = errors.New(
	"the ledger has not sealed all of it yet: repeat the command in a moment, while `novelgate serve` is running")

// Erasure is the result of the erasure of an author.
type Erasure struct {
	AuthorID uuid.UUID `json:"authorId"`
	// comments of the author; those received during the erasure are erased but not counted
	Comments  int       `json:"comments"`
	Decisions int       `json:"decisions"` // decisions about the author
	ErasedAt  time.Time `json:"erasedAt"`  // time of the latest erasure
}

// EraseAuthor permanently erases the identity and the comments of an author, up to now, from the log. Projections
// follow with the event AuthorErased. A second call erases later comments, and completes an interrupted erasure.
//
// It finds the comments in the table posts. This projection removes them when it applies AuthorErased, so they are
// erased before that event is recorded. Comments before AuthorErased that posts had not applied yet are searched in the
// log afterwards.
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
	// The log loses content before it has AuthorErased. A comparison of tables with the log must not run meanwhile.
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
	// First complete interrupted erasures, found by their events, so that no comment is counted twice.
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

// again completes every recorded erasure of the author. It fails with ErrNoSuchAuthor when there is none.
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
		if err := e.awaitSettled(ctx, history[i].Position); err != nil {
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

// searchedBefore returns the position after which an erasure, recorded at a position, may have left comments.
//
// Searched is a position of the cluster that recorded the erasure. A move to another cluster does not translate it,
// because stored events never change. For an erasure before a move the whole log before it is searched, which takes as
// long as reading it.
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
