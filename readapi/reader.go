// Package readapi reads the public data and serves it as JSON: approved and published novels, their discussions, and
// single comments. It also serves the ledger, the health of the process and the interface description.
//
// A discussion has pages of top-level comments in the order of writing, in either direction. Each one comes with its
// first replies of any depth, in the same order. Further replies have pages of their own, for each top-level comment.
// Comments that were written at the same instant follow their place in the log.
//
// A page is one statement of index scans, so a read model may be switched to its next generation at any time. A page of
// replies and a link to a comment take a second statement, which finds the place.
//
// Hidden and erased comments keep their places and replies. This package never returns their text and author.
package readapi

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/novel"
	"novelgate/internal/database"
	"novelgate/internal/problem"
	"novelgate/internal/web"
)

// Reasons why there is nothing to read at an address.
var (
	ErrNotFound = errors.New("there is no such novel or comment for the public")
	ErrGone     = errors.New("staff declined the novel")
	ErrCursor   = errors.New("is not a cursor of a page")
	ErrNotYet   = errors.New("the comment has arrived, but the projection posts has not applied it yet")
)

// Problem maps the errors of this package to problems. It returns nil for any other error.
func Problem(err error) *problem.Error {
	switch {
	case errors.Is(err, ErrNotFound):
		return problem.ErrNotFound
	case errors.Is(err, ErrGone):
		return problem.ErrGone
	case errors.Is(err, ErrCursor):
		return problem.InvalidField("cursor", ErrCursor.Error())
	case errors.Is(err, ErrNotYet):
		return problem.Unavailable(time.Second).WithDetail("The comment has just arrived and is shown in a moment.").
			WithCause(err)
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

// Reader reads the tables of projections, and the event log for the texts of comments. What it returns is also the JSON
// form of the routes.
type Reader struct {
	DB        database.Querier
	Addresses web.Addresses
}

// Text is a text that is null in JSON if it is empty.
type Text string

// MarshalJSONTo implements json.MarshalerTo.
func (t Text) MarshalJSONTo(e *jsontext.Encoder) error {
	if t == "" {
		return e.WriteToken(jsontext.Null)
	}
	return e.WriteToken(jsontext.String(string(t)))
}

// ChapterNumber is an exact decimal number; "" for none, which is null in JSON.
type ChapterNumber string

// MarshalJSONTo implements json.MarshalerTo.
func (c ChapterNumber) MarshalJSONTo(e *jsontext.Encoder) error {
	if c == "" {
		return e.WriteToken(jsontext.Null)
	}
	return e.WriteValue(jsontext.Value(c))
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
