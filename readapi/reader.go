// Package readapi reads the public data and serves it as JSON: approved and published novels, their discussions, and
// single comments. It also serves the ledger, the health of the process and the interface description.
//
// # Pages of a discussion
//
// A discussion has pages of top-level comments, sorted by the time of writing, in either direction. Each one has those
// replies of any depth that were received first, each after its parent. A reply never arrives before its parent, so the
// first N replies are a connected part of the tree. Further replies have pages of their own, for each top-level
// comment.
//
// # Statements
//
// A page of top-level comments of the current state is one statement of index scans, so a read model may be switched to
// its next generation at any time. A page of replies and a link to a comment take a second statement, which finds the
// place. A link to a comment that is not in the read model yet takes more: for the comment, and for each ancestor that
// is not there either.
//
// A page of a past time takes two more statements: one for the history of the novel, one for the names of authors at
// that time. Only the time-out of the request limits its cost, which grows in three ways. The state of the novel is
// built from all its events up to then, one at a time. And until the page is full, the statement skips comments that
// were written before that time but received after it, as in an import of old comments. And all comments of an author
// are searched for the name at that time if the author has another name now.
//
// # What is withheld
//
// Hidden and erased comments keep their places and replies. This package never returns their text and author.
package readapi

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/novel"
	"novelgate/internal/database"
	"novelgate/internal/problem"
)

// Reasons why there is nothing to read at an address.
var (
	ErrNotFound = errors.New("there is no such novel or comment for the public")
	ErrGone     = errors.New("staff declined the novel")
	ErrCursor   = errors.New("is not a cursor of a page")
)

// Problem maps the errors of this package to problems. It returns nil for any other error.
func Problem(err error) *problem.Error {
	switch {
	case errors.Is(err, ErrNotFound):
		return problem.NotFound()
	case errors.Is(err, ErrGone):
		return problem.Gone()
	case errors.Is(err, ErrCursor):
		return problem.InvalidField("cursor", ErrCursor.Error())
	default:
		return nil
	}
}

// checkPublic returns nil for a public novel, ErrGone for a rejected one, and ErrNotFound for any other.
func checkPublic(state novel.State) error {
	switch state {
	case novel.Approved, novel.Published:
		return nil
	case novel.Rejected:
		return ErrGone
	default:
		return ErrNotFound
	}
}

// Reader reads the tables of projections, and the event log for the texts of comments, for past states, and for
// comments that are not in the tables yet.
type Reader struct {
	DB database.Querier

	ranking atomic.Pointer[ranking] // cache of mostDiscussed
}

// queryOne reads the only row of a query. It fails with pgx.ErrNoRows when there is none.
func queryOne[T any](
	ctx context.Context, db database.Querier, scan pgx.RowToFunc[T], sql string, args ...any,
) (T, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		var none T
		return none, err
	}
	return pgx.CollectExactlyOneRow(rows, scan)
}
