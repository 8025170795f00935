package projections

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/internal/database"
)

//go:embed authors.sql
var authorsSQL string

// applyAuthors maintains the table authors, one row per author. The display name is that of the comment with the latest
// WrittenAt; of several such comments, the latest in the log. First seen is the time when the author's first comment in
// the log was received. Erased and withdrawn comments do not count, and an author without others is removed, whether
// the comments were read before or after that. It applies the comments between two decisions about authors together.
func applyAuthors(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	begin := 0
	for i := range batch {
		sql, args := touchAuthorSQL, []any{batch[i].StreamID, batch[i].RecordedAt}
		switch batch[i].Event.(type) {
		case events.AuthorLinked, events.AuthorUnlinked, events.AuthorBlocked, events.AuthorUnblocked:
		case events.AuthorErased:
			sql, args = eraseAuthorSQL, []any{batch[i].StreamID, batch[i].LogIndex}
		default: // a comment, or nothing that the view of analysts shows
			continue
		}
		if err := upsertAuthors(ctx, tx, batch[begin:i]); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sql, args...); err != nil {
			return fmt.Errorf("apply %s to an author: %w", batch[i].Event.Type(), err)
		}
		begin = i + 1
	}
	return upsertAuthors(ctx, tx, batch[begin:])
}

// touchAuthorSQL moves changed_at. $1: author; $2: recorded_at of a decision of staff that the view of analysts shows.
const touchAuthorSQL = `UPDATE authors SET changed_at = $2 WHERE author_id = $1`

// eraseAuthorSQL keeps the row of an author who commented after the erasure. $1: author; $2: log index of the erasure.
const eraseAuthorSQL = `DELETE FROM authors WHERE author_id = $1 AND display_name_log_index < $2`

func upsertAuthors(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	authors := foldAuthors(batch)
	if len(authors) == 0 {
		return nil
	}
	var (
		integrations      = make(uuidColumn, len(authors))
		external, names   = make([]string, len(authors)), make([]string, len(authors))
		writtenAt, seenAt = make(timeColumn, len(authors)), make(timeColumn, len(authors))
		changedAt         = make(timeColumn, len(authors))
		indexes           = make([]int64, len(authors))
	)
	for i, a := range authors {
		integrations[i] = pgUUID(a.integrationID)
		external[i], names[i] = a.comment.ExternalUUID, a.comment.Username
		writtenAt[i], seenAt[i], changedAt[i] = a.writtenAt, a.firstSeenAt, a.recordedAt
		indexes[i] = a.logIndex
	}
	if _, err := tx.Exec(ctx, authorsSQL, integrations, external, names, writtenAt, indexes, seenAt,
		changedAt); err != nil {
		return fmt.Errorf("upsert authors: %w", err)
	}
	return nil
}

// author has the data about an author in a batch of comments.
type author struct {
	integrationID uuid.UUID
	comment       *events.Comment // the latest by writtenAt
	writtenAt     time.Time       // of comment
	logIndex      int64           // of comment
	recordedAt    time.Time       // of comment
	firstSeenAt   time.Time
}

// foldAuthors returns the authors of a batch, one entry each.
func foldAuthors(batch []events.Recorded) []*author {
	type name struct {
		integrationID uuid.UUID
		externalUUID  string
	}
	known := make(map[name]*author, len(batch))
	authors := make([]*author, 0, len(batch))
	for i := range batch {
		recorded := &batch[i]
		e, ok := recorded.Event.(events.PostImported)
		if !ok || e.Comment == nil {
			continue
		}
		by := name{e.IntegrationID, e.Comment.ExternalUUID}
		a := known[by]
		isNew := a == nil
		if isNew {
			a = &author{integrationID: e.IntegrationID, firstSeenAt: recorded.RecordedAt}
			known[by] = a
			authors = append(authors, a)
		}
		if isNew || cmp.Or(e.WrittenAt.Compare(a.writtenAt), cmp.Compare(recorded.LogIndex, a.logIndex)) > 0 {
			a.comment, a.writtenAt = e.Comment, e.WrittenAt
			a.logIndex, a.recordedAt = recorded.LogIndex, recorded.RecordedAt
		}
	}
	return authors
}

// The erasure of an author holds an advisory lock in shared mode, so that several erasures can run at once. The number
// of the lock is a hash of its name.
const (
	announceErasureSQL = `SELECT pg_advisory_lock_shared(hashtextextended('novelgate erasure', 0))`

	erasureUnderWaySQL = `SELECT EXISTS (SELECT FROM pg_locks
WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (classid::bigint << 32 | objid::bigint) = hashtextextended('novelgate erasure', 0))`
)

// withdrawTimeout limits the wait for a database that does not answer.
const withdrawTimeout = 5 * time.Second

// AnnounceErasure makes ErasureUnderWay return true until withdraw is called or its connection ends. Meanwhile tables
// may have personal data that the log no longer has. It opens its own connection, because the caller may have taken the
// last one of the pool.
func AnnounceErasure(ctx context.Context, pool *pgxpool.Pool) (withdraw func(), err error) {
	conn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	if err != nil {
		return nil, fmt.Errorf("connect to announce an erasure: %w", err)
	}
	withdraw = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
		defer cancel()
		conn.Close(ctx) //nolint:errcheck // the lock ends with the connection, even if Close fails
	}
	if _, err := conn.Exec(ctx, announceErasureSQL); err != nil {
		withdraw()
		return nil, fmt.Errorf("announce an erasure: %w", err)
	}
	return withdraw, nil
}

// ErasureUnderWay reports whether an erasure is announced and not withdrawn.
func ErasureUnderWay(ctx context.Context, pool *pgxpool.Pool) (underWay bool, err error) {
	if err := pool.QueryRow(ctx, erasureUnderWaySQL).Scan(&underWay); err != nil {
		return false, fmt.Errorf("look for erasures under way: %w", err)
	}
	return underWay, nil
}
