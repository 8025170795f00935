package staff

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/author"
	"novelgate/commands/imports"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/projections"
)

// ErrNotSettled is returned when an older transaction that still runs may append events to erase, or when concurrent
// erasures of the author conflict. Some events may be erased already; a repetition of the command continues.
var ErrNotSettled = errors.New(
	"other transactions are still running and may append or erase the author's data: repeat the command in a moment")

// Erasure is the result of the erasure of an author.
type Erasure struct {
	AuthorID  uuid.UUID `json:"authorId"`
	Comments  int       `json:"comments"`  // those received during the erasure are erased too, but not counted
	Decisions int       `json:"decisions"` // staff actions about the author
	Lines     int       `json:"lines"`     // lines of bulk imports that had not stored a comment
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
	// The log loses content before it has AuthorErased. Meanwhile the tables must not be compared with the log.
	withdraw, err := projections.AnnounceErasure(ctx, s.Pool)
	if err != nil {
		return Erasure{}, err
	}
	defer withdraw()
	// Erase the lines of imports first: lines that are already stored are in the log, and the others are never stored.
	e := eraser{s, name}
	lines, err := imports.EraseLines(ctx, s.Pool, name.IntegrationID, name.ExternalUUID,
		func() error { return e.recordLines(ctx, ref, reason) })
	if err != nil {
		return Erasure{}, err
	}
	done, err := e.eraseEvents(ctx, ref, reason)
	done.Lines = lines
	if err == nil && done.ErasedAt.IsZero() { // neither an earlier erasure nor anything to erase
		return Erasure{}, ErrNoSuchAuthor
	}
	return done, err
}

// eraser erases one author.
type eraser struct {
	*Staff
	name AuthorName
}

// recordLines records AuthorErased before lines of imports are erased, if the log has nothing to erase: afterwards
// nothing shows whose lines they were, so a repetition after an interruption would find no author.
func (e eraser) recordLines(ctx context.Context, ref events.AuthorRef, reason string) error {
	_, found, err := e.completeAndFind(ctx)
	if err != nil || !found.nothing() {
		return err
	}
	return e.record(ctx, ref, reason, found)
}

// eraseEvents erases the author's events, and records AuthorErased unless there are none. It erases the comments in the
// table posts before it records AuthorErased, because the projection posts clears their author when it applies that
// event. Afterwards complete erases the comments that posts had not applied yet.
func (e eraser) eraseEvents(ctx context.Context, ref events.AuthorRef, reason string) (Erasure, error) {
	done, found, err := e.completeAndFind(ctx)
	if err != nil || found.nothing() {
		return done, err
	}
	if err := e.erase(ctx, found.projected); err != nil {
		return Erasure{}, err
	}
	if err := e.record(ctx, ref, reason, found); err != nil {
		return Erasure{}, err
	}
	done, err = e.complete(ctx)
	done.Comments, done.Decisions = found.comments(), found.decisions
	return done, err
}

// completeAndFind completes interrupted erasures, and then finds what to erase: otherwise it would find the comments
// that are left, which the events of these erasures have counted.
func (e eraser) completeAndFind(ctx context.Context) (done Erasure, found findings, err error) {
	if done, err = e.complete(ctx); err == nil {
		found, err = e.find(ctx)
	}
	return done, found, err
}

// record records AuthorErased.
func (e eraser) record(ctx context.Context, ref events.AuthorRef, reason string, found findings) error {
	return decideOn(ctx, e.Staff, stream{events.AuthorStream, e.name.id()},
		func(history []events.Recorded) author.Author { return author.Fold(ref, history) },
		func(a author.Author) ([]events.Event, error) {
			return a.Erase(reason, found.comments(), found.decisions, found.searched)
		})
}

// findings has the data of an author to erase.
type findings struct {
	projected []uuid.UUID     // comments in the table posts, and those that staff made the projection posts skip
	searched  events.Position // projected is complete up to this position
	rest      []uuid.UUID     // committed comments after searched
	decisions int             // events with personal data in the author's stream
	decided   bool            // the table author_decisions has data of the author
}

func (f findings) comments() int { return len(f.projected) + len(f.rest) }

func (f findings) nothing() bool { return f.comments() == 0 && !f.decided }

var (
	//go:embed erase_posts.sql
	erasePostsSQL string
	//go:embed erase_scan.sql
	eraseScanSQL string
	//go:embed erase_skipped.sql
	eraseSkippedSQL string
)

const (
	eraseCheckpointSQL = `SELECT transaction_id, position FROM projections WHERE name = 'posts'`
	eraseDecidedSQL    = `SELECT EXISTS (SELECT FROM author_decisions WHERE author_id = $1 AND (external_uuid IS NOT NULL OR member_id IS NOT NULL))`
)

// find finds what to erase.
func (e eraser) find(ctx context.Context) (f findings, err error) {
	// Read the checkpoint before the table, so that the table has all comments up to the checkpoint. A projection that
	// never ran has no checkpoint.
	err = e.Pool.QueryRow(ctx, eraseCheckpointSQL).Scan(&f.searched.TransactionID, &f.searched.Ordinal)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return f, fmt.Errorf("read the checkpoint of posts: %w", err)
	}
	if f.projected, err = e.comments(ctx, erasePostsSQL, e.name.id()); err != nil {
		return f, err
	}
	skipped, err := e.skipped(ctx)
	if err != nil {
		return f, err
	}
	f.projected = append(f.projected, skipped...)
	end := events.Position{TransactionID: math.MaxInt64, Ordinal: math.MaxInt32}
	if f.rest, err = e.scan(ctx, f.searched, end); err != nil {
		return f, err
	}
	f.rest = slices.DeleteFunc(f.rest, func(id uuid.UUID) bool { return slices.Contains(f.projected, id) })
	if err := e.Pool.QueryRow(ctx, eraseDecidedSQL, e.name.id()).Scan(&f.decided); err != nil {
		return f, fmt.Errorf("read decisions: %w", err)
	}
	history, err := eventlog.ReadStream(ctx, e.Pool, events.AuthorStream, e.name.id(), 0)
	for i := range history {
		if events.Personal(history[i].Event) != nil {
			f.decisions++
		}
	}
	return f, err
}

// skipped returns the comments of the author that staff made the projection posts skip.
func (e eraser) skipped(ctx context.Context) ([]uuid.UUID, error) {
	deliveries, err := projections.Skipped(ctx, e.Pool, projections.Posts{}.Name())
	if err != nil {
		return nil, err
	}
	var posts []uuid.UUID // of all authors of the integration
	for delivery := range deliveries {
		if delivery.Source == events.PostsSource(e.name.IntegrationID) {
			posts = append(posts, events.PostID(e.name.IntegrationID, delivery.ID))
		}
	}
	if len(posts) == 0 {
		return nil, nil
	}
	return e.comments(ctx, eraseSkippedSQL, posts, e.name.ExternalUUID)
}

// scan reads the log between two positions and returns the comments of the author.
func (e eraser) scan(ctx context.Context, after, before events.Position) ([]uuid.UUID, error) {
	return e.comments(ctx, eraseScanSQL, after.TransactionID, after.Ordinal, before.TransactionID, before.Ordinal,
		e.name.IntegrationID, e.name.ExternalUUID)
}

func (e eraser) comments(ctx context.Context, sql string, args ...any) ([]uuid.UUID, error) {
	return database.Collect(ctx, e.Pool, "comments to erase", pgx.RowTo[uuid.UUID], sql, args...)
}

// complete completes every recorded erasure of the author. Without a recorded erasure, ErasedAt of the result is zero.
func (e eraser) complete(ctx context.Context) (Erasure, error) {
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
		searched, err := erased.SearchedAt(history[i].Position)
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
		authorStream := e.name.id() // has the decisions about the author
		if err := e.erase(ctx, append(left, authorStream)); err != nil {
			return Erasure{}, err
		}
	}
	return done, nil
}

const (
	eraseBatch = 500                   // streams in one transaction: readers of the log wait for each writing transaction
	eraseWait  = 10 * time.Second      // how long to wait for older transactions
	erasePoll  = 20 * time.Millisecond // interval between attempts

	eraseSQL   = `SELECT erase_author_events($1, $2, $3)`
	settledSQL = `SELECT $1::xid8 < pg_snapshot_xmin(pg_current_snapshot())`
)

// erase erases the author's data from these streams, eraseBatch streams in each transaction.
func (e eraser) erase(ctx context.Context, streams []uuid.UUID) error {
	for batch := range slices.Chunk(streams, eraseBatch) {
		if err := await(ctx, func() (bool, error) {
			_, err := e.Pool.Exec(ctx, eraseSQL, e.name.IntegrationID, e.name.ExternalUUID, batch)
			switch {
			case err == nil:
				return true, nil
			case eventlog.IsConflict(err):
				return false, nil // a concurrent erasure of the same author may cause a conflict
			default:
				return false, fmt.Errorf("erase: %w", err)
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// awaitSettled waits until the events before a position are settled.
func (e eraser) awaitSettled(ctx context.Context, at events.Position) error {
	return await(ctx, func() (settled bool, err error) {
		if err := e.Pool.QueryRow(ctx, settledSQL, at.TransactionID).Scan(&settled); err != nil {
			return false, fmt.Errorf("check whether the log is settled: %w", err)
		}
		return settled, nil
	})
}

// await calls try until it returns true or fails. After eraseWait, or when ctx ends, it fails with ErrNotSettled.
func await(ctx context.Context, try func() (bool, error)) error {
	deadline := time.NewTimer(eraseWait)
	defer deadline.Stop()
	for {
		if done, err := try(); done || err != nil {
			return err
		}
		select {
		case <-deadline.C:
			return ErrNotSettled
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrNotSettled, ctx.Err())
		case <-time.After(erasePoll):
		}
	}
}

// authorProjections names the asynchronous projections with data of authors.
func authorProjections() []string {
	return []string{projections.Posts{}.Name(), projections.Authors{}.Name(), projections.Activity{}.Name()}
}

// NotAppliedError names the projections that have not applied an erasure.
type NotAppliedError struct{ Projections []string }

func (e *NotAppliedError) Error() string {
	return "not applied yet by " + strings.Join(e.Projections, ", ")
}

// AwaitErased waits until the asynchronous projections have applied the latest erasure of an author. It fails with a
// *NotAppliedError when ctx ends first, or when only stopped projections are left. If ctx ends before the database has
// said once which projections are left, it fails with the error of ctx.
func (s *Staff) AwaitErased(ctx context.Context, authorID uuid.UUID) error {
	var notApplied *NotAppliedError
	for {
		pending, err := s.pendingErasure(ctx, authorID)
		switch {
		case err != nil && ctx.Err() != nil && notApplied != nil:
			return notApplied
		case err != nil:
			return err
		case len(pending) == 0:
			return nil
		}
		notApplied = &NotAppliedError{}
		for _, p := range pending {
			notApplied.Projections = append(notApplied.Projections, p.Name)
		}
		if !slices.ContainsFunc(pending, func(p pendingProjection) bool { return !p.Stopped }) {
			return notApplied
		}
		if !eventlog.Sleep(ctx, erasePoll) {
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
		`SELECT name FROM projection_rebuilds WHERE phase <> 'finished' AND name = ANY ($1) ORDER BY name`, names)
}
