package staff

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/author"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/auth"
	"novelgate/internal/database"
)

// ErrNoSuchAuthor is returned for an author without comments and without decisions.
var ErrNoSuchAuthor = errors.New("no such author")

// AuthorName identifies an author. The same identifier at another integration is another author.
type AuthorName struct {
	IntegrationID uuid.UUID
	ExternalUUID  string // the partner's identifier
}

// ID returns the identifier of the author, which the database derives: see events.AuthorID. It fails with
// author.ErrUUIDInvalid if no author can have the name.
func (n AuthorName) ID(ctx context.Context, db database.Querier) (id uuid.UUID, err error) {
	if _, err := author.Ref(n.IntegrationID, n.ExternalUUID); err != nil {
		return uuid.Nil, err
	}
	const sql = `SELECT author_id(author_key((SELECT value FROM settings WHERE name = 'author_secret'), $1), $2)`
	if err := db.QueryRow(ctx, sql, n.IntegrationID, n.ExternalUUID).Scan(&id); err != nil {
		return uuid.Nil, fmt.Errorf("derive the id of an author: %w", err)
	}
	return id, nil
}

// Author is an author as staff see them.
type Author struct {
	ID               uuid.UUID  `json:"authorId"`
	IntegrationID    uuid.UUID  `json:"integrationId"`
	ExternalUUID     string     `json:"uuid"`
	DisplayName      *string    `json:"displayName"` // nil, like firstSeenAt, without comments
	MemberID         *string    `json:"memberId"`    // nil: attributed to the partner platform
	Blocked          bool       `json:"blocked"`
	PostsHidden      bool       `json:"postsHidden"`
	PostsHiddenUntil *time.Time `json:"postsHiddenUntil"` // comments received later are visible
	FirstSeenAt      *time.Time `json:"firstSeenAt"`
	// History has the decisions, oldest first, if they were asked for.
	History []HistoryEntry `db:"-" json:"history,omitzero"`
}

// LinkAuthor attributes the past and future comments of an author to a member of the host platform. A second link to
// the same member records nothing.
func (s *Staff) LinkAuthor(ctx context.Context, name AuthorName, memberID, reason string) (Author, error) {
	if auth.HasKey(memberID) {
		return Author{}, ErrHasKey
	}
	return s.decideAuthor(ctx, name, checkReason(reason),
		func(a author.Author) ([]events.Event, error) { return a.Link(memberID, reason) })
}

// UnlinkAuthor attributes the comments of an author to the partner platform again.
func (s *Staff) UnlinkAuthor(ctx context.Context, name AuthorName, reason string) (Author, error) {
	return s.decideAuthor(ctx, name, checkReason(reason),
		func(a author.Author) ([]events.Event, error) { return a.Unlink(reason) })
}

// BlockAuthor refuses further comments of an author, from the next request on.
func (s *Staff) BlockAuthor(ctx context.Context, name AuthorName, reason string) (Author, error) {
	return s.decideAuthor(ctx, name, requireReason(reason),
		func(a author.Author) ([]events.Event, error) { return a.Block(reason) })
}

// UnblockAuthor lets an author comment again.
func (s *Staff) UnblockAuthor(ctx context.Context, name AuthorName, reason string) (Author, error) {
	return s.decideAuthor(ctx, name, requireReason(reason),
		func(a author.Author) ([]events.Event, error) { return a.Unblock(reason) })
}

// HideAuthorPosts hides all posts of an author received up to now, with one event.
func (s *Staff) HideAuthorPosts(ctx context.Context, name AuthorName, reason string) (Author, error) {
	// The clock of the database also sets recorded_at, unless it was set back: then the log is ahead of it. It is read
	// here, because under the lock of the log a command has one connection.
	var now time.Time
	if err := s.Pool.QueryRow(ctx, nowSQL).Scan(&now); err != nil {
		return Author{}, fmt.Errorf("read the clock of the database: %w", err)
	}
	return s.decideAuthor(ctx, name, requireReason(reason),
		func(a author.Author) ([]events.Event, error) { return a.HidePosts(reason, now) })
}

const nowSQL = `SELECT greatest(statement_timestamp(), (SELECT recorded_at FROM events ORDER BY log_index DESC LIMIT 1))`

// RestoreAuthorPosts undoes HideAuthorPosts. Posts hidden individually stay hidden.
func (s *Staff) RestoreAuthorPosts(ctx context.Context, name AuthorName, reason string) (Author, error) {
	return s.decideAuthor(ctx, name, requireReason(reason),
		func(a author.Author) ([]events.Event, error) { return a.RestorePosts(reason) })
}

// decideAuthor executes a decision about an author, who may have no comments yet. If reasonErr, the refusal of the
// reason, is not nil, it fails with that.
func (s *Staff) decideAuthor(
	ctx context.Context, name AuthorName, reasonErr error, decide func(author.Author) ([]events.Event, error),
) (Author, error) {
	ref, err := author.Ref(name.IntegrationID, name.ExternalUUID)
	if err = cmp.Or(reasonErr, err); err != nil {
		return Author{}, err
	}
	if _, err := s.Integration(ctx, name.IntegrationID.String()); err != nil {
		return Author{}, err
	}
	id, err := name.ID(ctx, s.Pool)
	if err != nil {
		return Author{}, err
	}
	err = decideOn(ctx, s, stream{events.AuthorStream, id},
		func(history []events.Recorded) author.Author { return author.Fold(ref, history) }, decide)
	if err != nil {
		return Author{}, err
	}
	return s.Author(ctx, name)
}

// Author finds an author; ErrNoSuchAuthor when there is none.
func (s *Staff) Author(ctx context.Context, name AuthorName) (Author, error) {
	id, err := name.ID(ctx, s.Pool)
	if err != nil {
		return Author{}, err
	}
	found, err := find(ctx, s, "author", ErrNoSuchAuthor, pgx.RowToStructByPos[Author], authorSQL, id)
	if err == nil {
		found.ID, found.IntegrationID, found.ExternalUUID = id, name.IntegrationID, name.ExternalUUID
	}
	return found, err
}

// AuthorWithHistory finds an author as Author does, with the decisions about them.
func (s *Staff) AuthorWithHistory(ctx context.Context, name AuthorName) (Author, error) {
	found, err := s.Author(ctx, name)
	if err != nil {
		return Author{}, err
	}
	recorded, err := eventlog.ReadStream(ctx, s.Pool, events.AuthorStream, found.ID, 0)
	if err != nil {
		return Author{}, err
	}
	found.History, err = historyOf(ctx, s.Pool, recorded)
	return found, err
}

var (
	//go:embed author.sql
	authorSQL string
	//go:embed authors.sql
	authorsSQL string
)

// AuthorFilter selects authors of an integration. A nil field does not restrict the list.
type AuthorFilter struct {
	IntegrationID uuid.UUID
	Linked        *bool
	Blocked       *bool
	Prefix        string // with which the uuid begins
	After         string // uuid of the previous page's last author
	Limit         int    // 1 or more
}

// ListAuthors lists the authors of an integration with comments or decisions, sorted by the bytes of the partner's
// identifier.
func (s *Staff) ListAuthors(ctx context.Context, f AuthorFilter) ([]Author, error) {
	if _, err := s.Integration(ctx, f.IntegrationID.String()); err != nil {
		return nil, err
	}
	return database.Collect(ctx, s.Pool, "authors", pgx.RowToStructByPos[Author], authorsSQL, f.IntegrationID, f.After,
		f.Linked, f.Blocked, f.Limit, f.Prefix)
}
