package readapi

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/novel"
	"novelgate/events"
)

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
	then.Platform, err = queryOne(ctx, r.DB, pgx.RowTo[string], platformSQL, *folded.OwnerID)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return Novel{}, fmt.Errorf("read partner platform: %w", err)
	}
	return then, nil
}

// foldNovel builds the state of a novel from its events before the first one that was recorded after asOf. It holds one
// event in memory at a time. It fails with ErrNotFound when the novel was not public at asOf, or did not exist.
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
	if checkPublic(then.State) != nil {
		return novel.Novel{}, ErrNotFound
	}
	return then, nil
}

// completeAsOf gives a page of a past time the language and the cover of the novel, and the names of the authors, at
// that time. It fails with ErrNotFound when the novel was not public then.
func (r *Reader) completeAsOf(ctx context.Context, page *Page, asOf time.Time) error {
	then, err := r.foldNovel(ctx, page.Novel.ID, asOf)
	if err != nil {
		return err
	}
	page.Novel.Language, page.Novel.CoverURL = then.Details.Language, then.Details.CoverURL
	names, err := r.names(ctx, page.authors(), asOf)
	if err != nil {
		return err
	}
	for p := range page.All() {
		if name, ok := names[p.authorID.UUID]; ok && p.authorID.Valid {
			p.Author.Name = name
		}
	}
	return nil
}

// authors returns the authors whose names are shown.
func (p *Page) authors() []uuid.UUID {
	var ids []uuid.UUID
	for post := range p.All() {
		if post.authorID.Valid && !slices.Contains(ids, post.authorID.UUID) {
			ids = append(ids, post.authorID.UUID)
		}
	}
	return ids
}

// names returns the names that authors had at asOf. It leaves out those who have none.
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
