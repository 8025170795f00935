package staff

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/author"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/projections"
)

// ErrBusy is returned when another erasure of the author is under way, or when a failover has set the log back during
// this one. Some events may be erased already; a repetition of the command continues.
var ErrBusy = errors.New("another erasure of the author is under way, or the database fails over: " +
	"repeat the command in a moment")

// Erasure is the result of the erasure of an author.
type Erasure struct {
	AuthorID  uuid.UUID `json:"authorId"`
	Comments  int       `json:"comments"`  // those received during the erasure are erased too, but not counted
	Decisions int       `json:"decisions"` // staff actions about the author
	ErasedAt  time.Time `json:"erasedAt"`  // time of the latest erasure
}

// EraseAuthor permanently erases the identity and the comments of an author, up to now. Projections follow with the
// event AuthorErased. Repeat it after an error, or to erase later comments.
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
	id, err := name.ID(ctx, s.Pool)
	if err != nil {
		return Erasure{}, err
	}
	// The log loses content before it has AuthorErased. Meanwhile the tables must not be compared with the log.
	withdraw, err := projections.AnnounceErasure(ctx, s.Pool)
	if err != nil {
		return Erasure{}, err
	}
	defer withdraw()
	e := eraser{s, name, id}
	found, err := e.find(ctx)
	if err != nil {
		return Erasure{}, err
	}
	if len(found.comments) == 0 && found.decisions == 0 {
		if found.erasedAt.IsZero() {
			return Erasure{}, ErrNoSuchAuthor
		}
		return Erasure{AuthorID: id, ErasedAt: found.erasedAt}, nil // by an earlier erasure
	}
	// All comments that are found come first, in many transactions, because the projection posts clears their author when
	// it applies AuthorErased. An interrupted erasure leaves no other trace: a repetition finds them in posts again.
	for batch := range slices.Chunk(found.comments, 500) {
		if err := e.erase(ctx, s.Pool, batch); err != nil {
			return Erasure{}, err
		}
	}
	return e.record(ctx, ref, reason, found)
}

// eraser erases one author.
type eraser struct {
	*Staff
	name AuthorName
	id   uuid.UUID
}

// record records AuthorErased, and erases in the same transaction the decisions about the author and the comments that
// came since found. Under the lock no other comment can be appended before the event.
func (e eraser) record(ctx context.Context, ref events.AuthorRef, reason string, found findings) (Erasure, error) {
	done := Erasure{AuthorID: e.id, Decisions: found.decisions}
	st := stream{events.AuthorStream, e.id}
	var rest []uuid.UUID // comments since found
	err := e.execute(ctx, st, func(db database.Querier) (_ int, _ []events.Event, err error) {
		// If the log does not have the mark any more, other comments may be before its position now.
		_, err = eventlog.ReadChunk(ctx, db, found.searched, eventlog.NewFetchSize(1), nil)
		if errors.Is(err, eventlog.ErrOtherLog) {
			return 0, nil, fmt.Errorf("%w: %w", ErrBusy, err)
		}
		if err != nil {
			return 0, nil, err
		}
		if rest, err = e.scan(ctx, db, found.searched.Position); err != nil {
			return 0, nil, err
		}
		history, err := eventlog.ReadStream(ctx, db, st.kind, st.id, 0)
		if err != nil {
			return 0, nil, err
		}
		done.Comments = len(found.comments) + len(rest)
		decided, err := author.Fold(ref, history).Erase(reason, done.Comments, found.decisions)
		return len(history), decided, err
	}, func(tx pgx.Tx) error {
		if err := e.erase(ctx, tx, append(rest, st.id)); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT recorded_at FROM events WHERE stream_id = $1 ORDER BY stream_version DESC LIMIT 1`,
			st.id).Scan(&done.ErasedAt)
	})
	done.ErasedAt = done.ErasedAt.UTC()
	return done, err
}

// findings has the data of an author to erase.
type findings struct {
	comments  []uuid.UUID   // with the author's data up to searched
	searched  eventlog.Mark // end of the log when the search began
	decisions int           // events with personal data in the author's stream
	erasedAt  time.Time     // of the latest erasure; zero without one
}

var (
	//go:embed erase_find.sql
	eraseFindSQL string
	//go:embed erase_scan.sql
	eraseScanSQL string
)

// find finds what to erase.
func (e eraser) find(ctx context.Context) (f findings, err error) {
	// Appends take turns, so no event can come before what is the end now.
	if f.searched, err = eventlog.End(ctx, e.Pool); err != nil {
		return f, err
	}
	// Read the checkpoint before the table, so that the table has all comments up to the checkpoint. A projection that
	// never ran has no checkpoint.
	var projected events.Position
	err = e.Pool.QueryRow(ctx, `SELECT position FROM projections WHERE name = 'posts'`).Scan(&projected)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return f, fmt.Errorf("read the checkpoint of posts: %w", err)
	}
	deliveries, err := projections.Skipped(ctx, e.Pool, projections.Posts{}.Name())
	if err != nil {
		return f, err
	}
	var skipped []uuid.UUID // by order of staff; of all authors of the integration
	for delivery := range deliveries {
		if delivery.Source == events.PostsSource(e.name.IntegrationID) {
			skipped = append(skipped, events.PostID(e.name.IntegrationID, delivery.ID))
		}
	}
	f.comments, err = e.collect(ctx, e.Pool, eraseFindSQL, e.id, skipped, e.name.ExternalUUID)
	if err != nil {
		return f, err
	}
	// Comments that posts has applied meanwhile are in both.
	rest, err := e.scan(ctx, e.Pool, projected)
	if err != nil {
		return f, err
	}
	f.comments = append(f.comments, rest...)
	slices.SortFunc(f.comments, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	f.comments = slices.Compact(f.comments)
	history, err := eventlog.ReadStream(ctx, e.Pool, events.AuthorStream, e.id, 0)
	for i := range history {
		if events.Personal(history[i].Event) != nil {
			f.decisions++
		}
		if _, ok := history[i].Event.(events.AuthorErased); ok {
			f.erasedAt = history[i].RecordedAt.UTC()
		}
	}
	return f, err
}

// scan reads the log from a position on and returns the comments of the author that are not erased.
func (e eraser) scan(ctx context.Context, db database.Querier, from events.Position) ([]uuid.UUID, error) {
	return e.collect(ctx, db, eraseScanSQL, from, e.name.IntegrationID, e.name.ExternalUUID)
}

func (eraser) collect(ctx context.Context, db database.Querier, sql string, args ...any) ([]uuid.UUID, error) {
	return database.Collect(ctx, db, "comments to erase", pgx.RowTo[uuid.UUID], sql, args...)
}

// erase erases the author's data from these streams. It fails with ErrBusy if another erasure of the author has them.
func (e eraser) erase(ctx context.Context, db database.Execer, streams []uuid.UUID) error {
	_, err := db.Exec(ctx, `SELECT erase_author_events($1, $2, $3)`, e.name.IntegrationID, e.name.ExternalUUID, streams)
	if eventlog.IsConflict(err) {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	return nil
}

// authorProjections names the asynchronous projections with data of authors.
func authorProjections() []string {
	return []string{projections.Posts{}.Name(), projections.Words{}.Name(), projections.Activity{}.Name()}
}

// NotAppliedError names the projections that have not applied an erasure.
type NotAppliedError struct{ Projections []string }

func (e *NotAppliedError) Error() string {
	return "not applied yet by " + strings.Join(e.Projections, ", ")
}

// AwaitErased waits until the asynchronous projections have applied the latest erasure of an author. It fails with a
// *NotAppliedError when ctx ends first, or when only stopped projections are left.
func (s *Staff) AwaitErased(ctx context.Context, authorID uuid.UUID) error {
	for {
		// Also when ctx has ended, to name the projections.
		pending, err := s.pendingErasure(context.WithoutCancel(ctx), authorID)
		if err != nil || len(pending) == 0 {
			return err
		}
		follows := slices.ContainsFunc(pending, func(p pendingProjection) bool { return !p.Stopped })
		if !follows || !eventlog.Sleep(ctx, 20*time.Millisecond) {
			notApplied := &NotAppliedError{}
			for _, p := range pending {
				notApplied.Projections = append(notApplied.Projections, p.Name)
			}
			return notApplied
		}
	}
}

// StoppedBefore names the projections that stopped before the latest erasure of an author. Their tables keep the
// author's data until they continue.
func (s *Staff) StoppedBefore(ctx context.Context, authorID uuid.UUID) (names []string, err error) {
	pending, err := s.pendingErasure(ctx, authorID)
	for _, p := range pending {
		if p.Stopped {
			names = append(names, p.Name)
		}
	}
	return names, err
}

// pendingProjection is a projection that has not applied an erasure.
type pendingProjection struct {
	Name    string
	Stopped bool
}

//go:embed erase_pending.sql
var erasePendingSQL string

func (s *Staff) pendingErasure(ctx context.Context, authorID uuid.UUID) ([]pendingProjection, error) {
	return database.Collect(ctx, s.Pool, "pending projections", pgx.RowToStructByPos[pendingProjection],
		erasePendingSQL, authorProjections(), authorID)
}

// UnfinishedRebuilds returns the projections with data of authors that have an unfinished rebuild. The rebuilt tables
// keep erased authors until the rebuild continues and applies the erasure, or is discarded.
func (s *Staff) UnfinishedRebuilds(ctx context.Context) ([]string, error) {
	names := append(authorProjections(), projections.AuthorDecisions{}.Name())
	return database.Collect(ctx, s.Pool, "unfinished rebuilds", pgx.RowTo[string],
		`SELECT name FROM projection_rebuilds WHERE finished_at IS NULL AND name = ANY ($1) ORDER BY name`, names)
}
