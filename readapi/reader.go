// Package readapi reads the public data and serves it as JSON: approved and published novels, their discussions, and
// single comments. It also serves the ledger, the health of the process and the interface description.
//
// # Pages of a discussion
//
// A discussion has pages of top-level comments, sorted by the time of writing, in either direction. Each one has its
// first replies of any depth, in the order of receipt. A reply never arrives before its parent, so the first N replies
// are a connected part of the tree. Further replies have pages of their own, for each top-level comment.
//
// # Statements
//
// A page of the current state is one statement of index scans, so a read model may be switched to its next generation
// at any time. A link to a comment takes a second statement, which finds its place.
//
// A page of a past time takes two more statements: one for the history of the novel, one for the names of authors at
// that time. Its cost grows: the state of the novel is built from all its events, one at a time, and comments with an
// earlier time of writing that were received later, as in an import of old comments, are skipped until the page is
// full. Only the time-out of the request limits this.
//
// # What is withheld
//
// Hidden and erased comments keep their places and replies. This package never returns their text and author.
package readapi

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/novel"
	"novelgate/events"
	"novelgate/internal/database"
	"novelgate/internal/httpkit"
)

// Errors of an address.
var (
	ErrNotFound = errors.New("there is no such novel or comment for the public")
	ErrGone     = errors.New("staff declined the novel")
)

// Novel is a public novel.
type Novel struct {
	ID       uuid.UUID
	Slug     string
	Title    string
	State    novel.State // Approved or Published
	Platform string      // name of the owning partner platform; "" for the host platform
	Posts    int         // imported comments and replies, hidden and erased ones included; 0 at a past time
	LastPost *time.Time  // when the latest one was written; nil without comments
	novel.Details
}

// visible returns nil for a public novel, ErrGone or ErrNotFound for any other.
func visible(state novel.State) error {
	switch state {
	case novel.Approved, novel.Published:
		return nil
	case novel.Rejected:
		return ErrGone
	default:
		return ErrNotFound
	}
}

// Reader reads the read models, and the event log for comments that are not in them yet.
type Reader struct {
	DB database.Querier

	ranked atomic.Pointer[ranking]
}

//go:embed novel.sql
var novelSQL string

// Novel returns the novel with a slug, any text of an address, in its state at asOf, or now when asOf is nil. It fails
// with ErrNotFound or ErrGone.
func (r *Reader) Novel(ctx context.Context, slug string, asOf *time.Time) (Novel, error) {
	if !httpkit.IsText(slug) {
		return Novel{}, ErrNotFound
	}
	n, err := one(ctx, r.DB, scanNovel, novelSQL, slug)
	if errors.Is(err, pgx.ErrNoRows) {
		return Novel{}, ErrNotFound
	}
	if err != nil {
		return Novel{}, fmt.Errorf("read novel: %w", err)
	}
	if err := visible(n.State); err != nil {
		return Novel{}, err
	}
	if asOf == nil {
		return n, nil
	}
	return r.novelAsOf(ctx, n, *asOf)
}

// scanNovel reads a row of novel.sql.
func scanNovel(row pgx.CollectableRow) (Novel, error) {
	var n Novel
	var details []byte
	if err := row.Scan(&n.ID, &n.Slug, &n.Title, &n.State, &n.Platform, &details, &n.Posts, &n.LastPost); err != nil {
		return Novel{}, fmt.Errorf("scan novel: %w", err)
	}
	if err := json.Unmarshal(details, &n.Details); err != nil {
		return Novel{}, fmt.Errorf("decode details of novel %s: %w", n.ID, err)
	}
	return n, nil
}

// one reads the one row of a query. It fails with pgx.ErrNoRows when there is none.
func one[T any](ctx context.Context, db database.Querier, scan pgx.RowToFunc[T], sql string, args ...any) (T, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		var none T
		return none, err
	}
	return pgx.CollectExactlyOneRow(rows, scan)
}

//go:embed names.sql
var namesSQL string

//go:embed history.sql
var historySQL string

const platformSQL = `SELECT name FROM integrations WHERE integration_id = $1`

// novelAsOf returns the state of a novel at a past time.
func (r *Reader) novelAsOf(ctx context.Context, today Novel, asOf time.Time) (Novel, error) {
	folded, err := r.foldNovel(ctx, today.ID, asOf)
	if err != nil {
		return Novel{}, err
	}
	then := Novel{
		ID: today.ID, Slug: today.Slug, Title: today.Title, State: folded.State, Details: folded.Details,
	}
	if folded.OwnerID == nil {
		return then, nil
	}
	then.Platform, err = one(ctx, r.DB, pgx.RowTo[string], platformSQL, *folded.OwnerID)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return Novel{}, fmt.Errorf("read partner platform: %w", err)
	}
	return then, nil
}

// foldNovel builds the state of a novel from its events up to the first event that was recorded after asOf. It fails
// with ErrNotFound when the novel was not public then, or did not exist. It holds one event in memory at a time.
func (r *Reader) foldNovel(ctx context.Context, id uuid.UUID, asOf time.Time) (novel.Novel, error) {
	rows, err := r.DB.Query(ctx, historySQL, id)
	if err != nil {
		return novel.Novel{}, fmt.Errorf("read history of novel: %w", err)
	}
	defer rows.Close()
	then := novel.Novel{ID: id}
	for rows.Next() {
		var stored events.Stored
		var version int
		var recordedAt time.Time
		if err := rows.Scan(&version, &stored.Type, &stored.Data, &stored.Personal, &recordedAt); err != nil {
			return novel.Novel{}, fmt.Errorf("read history of novel: %w", err)
		}
		if recordedAt.After(asOf) {
			break
		}
		event, err := events.Decode(stored)
		if err != nil {
			return novel.Novel{}, fmt.Errorf("decode version %d of novel %s: %w", version, id, err)
		}
		then = then.Apply(event)
	}
	rows.Close() // before rows.Err, which is complete only then
	if err := rows.Err(); err != nil {
		return novel.Novel{}, fmt.Errorf("read history of novel: %w", err)
	}
	if visible(then.State) != nil {
		return novel.Novel{}, ErrNotFound
	}
	return then, nil
}

// asOf completes a page of a past time: the novel must have been public, and authors get the names that they had.
func (r *Reader) asOf(ctx context.Context, page *Page, asOf time.Time) error {
	then, err := r.foldNovel(ctx, page.Novel.ID, asOf)
	if err != nil {
		return err
	}
	page.Novel.Language, page.Novel.CoverURL = then.Details.Language, then.Details.CoverURL
	names, err := r.names(ctx, page.authors(), asOf)
	if err != nil {
		return err
	}
	page.each(func(p *Post) {
		if name, ok := names[p.authorID.UUID]; ok && p.authorID.Valid {
			p.Author.Name = name
		}
	})
	return nil
}

func (p *Page) each(do func(p *Post)) {
	for i := range p.TopLevelComments {
		do(&p.TopLevelComments[i].Post)
		for j := range p.TopLevelComments[i].Replies {
			do(&p.TopLevelComments[i].Replies[j])
		}
	}
}

// authors returns the authors whose names are shown.
func (p *Page) authors() []uuid.UUID {
	var ids []uuid.UUID
	p.each(func(p *Post) {
		if p.authorID.Valid && !slices.Contains(ids, p.authorID.UUID) {
			ids = append(ids, p.authorID.UUID)
		}
	})
	return ids
}

func (r *Reader) names(ctx context.Context, authors []uuid.UUID, asOf time.Time) (map[uuid.UUID]string, error) {
	names := make(map[uuid.UUID]string, len(authors))
	rows, _ := r.DB.Query(ctx, namesSQL, authors, asOf) // ForEachRow returns its error
	var id uuid.UUID
	var stored events.Stored
	if _, err := pgx.ForEachRow(rows, []any{&id, &stored.Type, &stored.Data, &stored.Personal}, func() error {
		event, err := events.Decode(stored)
		if err != nil {
			return fmt.Errorf("decode comment: %w", err)
		}
		if e, ok := event.(events.PostImported); ok && e.Comment != nil {
			names[id] = e.Comment.Username
		}
		stored = events.Stored{}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read names: %w", err)
	}
	return names, nil
}
