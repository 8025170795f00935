package projections

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
	"novelgate/internal/database"
	"novelgate/internal/title"
)

var (
	//go:embed titles_insert.sql
	titlesInsertSQL string
	//go:embed titles_update.sql
	titlesUpdateSQL string
)

// Titles is the inline projection titles: the current novel of each title (title_lookup).
type Titles struct{}

// Name implements Projection.
func (Titles) Name() string { return "titles" }

// Generation implements Projection.
func (Titles) Generation() int { return 1 }

// Tables implements Projection.
func (Titles) Tables() []string { return []string{"title_lookup"} }

// Streams implements Projection.
func (Titles) Streams() []string { return []string{events.NovelStream} }

// titleRow is the change of one novel by a batch.
type titleRow struct {
	novelID uuid.UUID
	opened  bool       // the batch has the first event of the stream
	title   string     // "" if unchanged; fixed once the novel is created
	slug    string     // with opened
	state   string     // "" if unchanged
	owner   *uuid.UUID // set by the creation
	toHost  bool
	version int
	details titleDetails
}

// titleDetails are the members of the column details. In an update, nil leaves a member unchanged.
type titleDetails struct {
	Author        *string   `json:"author,omitzero"`
	Synopsis      *string   `json:"synopsis,omitzero"`
	CoverURL      *string   `json:"coverUrl,omitzero"`
	Genres        *[]string `json:"genres,omitzero"`
	Language      *string   `json:"language,omitzero"`
	ReadingStatus *string   `json:"readingStatus,omitzero"`
}

// Apply implements Projection. If the folded title or the slug of a new novel is taken, the unique violation makes the
// writer decide again.
func (Titles) Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	rows := map[uuid.UUID]*titleRow{}
	for _, recorded := range batch {
		if recorded.StreamType != events.NovelStream {
			continue
		}
		row, ok := rows[recorded.StreamID]
		if !ok {
			row = &titleRow{novelID: recorded.StreamID}
			rows[recorded.StreamID] = row
		}
		row.add(recorded)
	}
	if len(rows) == 0 {
		return nil
	}
	// Sorted, so that concurrent writers lock shared rows in the same order.
	sorted := slices.SortedFunc(maps.Values(rows),
		func(a, b *titleRow) int { return compareIDs(a.novelID, b.novelID) })
	if err := insertTitles(ctx, tx, sorted); err != nil {
		return err
	}
	return updateTitles(ctx, tx, sorted)
}

func (r *titleRow) add(recorded events.Recorded) {
	r.version = recorded.StreamVersion
	r.opened = r.opened || recorded.StreamVersion == 1
	switch e := recorded.Event.(type) {
	case events.NovelBarred:
		r.title, r.slug, r.state = e.Title, e.Slug, "rejected"
	case events.NovelUnbarred:
		r.state = "free"
	case events.NovelCreated:
		r.title, r.slug, r.state, r.owner = e.Title, e.Slug, e.State, e.OwnerID
		r.details = titleDetails{&e.Author, &e.Synopsis, &e.CoverURL, &e.Genres, &e.Language, &e.ReadingStatus}
	case events.NovelUpdated:
		d := &r.details
		d.Author = cmp.Or(e.Author, d.Author)
		d.Synopsis = cmp.Or(e.Synopsis, d.Synopsis)
		d.CoverURL = cmp.Or(e.CoverURL, d.CoverURL)
		d.Genres = cmp.Or(e.Genres, d.Genres)
		d.Language = cmp.Or(e.Language, d.Language)
		d.ReadingStatus = cmp.Or(e.ReadingStatus, d.ReadingStatus)
	case events.NovelPublished:
		r.state, r.toHost = "published", true
	case events.NovelApproved:
		r.state = "approved"
	case events.NovelRejected:
		r.state = "rejected"
	default: // changes only the version
	}
}

// newOwner returns the owner that the batch sets, NULL if it sets none.
func (r *titleRow) newOwner() pgtype.UUID {
	if r.owner == nil || r.toHost {
		return pgtype.UUID{}
	}
	return pgtype.UUID{Bytes: *r.owner, Valid: true}
}

func insertTitles(ctx context.Context, tx database.Execer, rows []*titleRow) error {
	var (
		folded, slugs, titles, states, details []string
		novelIDs, owners                       []pgtype.UUID
		versions                               []int32
	)
	opened := slices.DeleteFunc(slices.Clone(rows), func(r *titleRow) bool { return !r.opened })
	slices.SortFunc(opened, func(a, b *titleRow) int { return strings.Compare(title.Fold(a.title), title.Fold(b.title)) })
	for _, r := range opened {
		encoded, err := json.Marshal(r.details)
		if err != nil {
			return fmt.Errorf("encode details of novel %s: %w", r.novelID, err)
		}
		folded = append(folded, title.Fold(r.title))
		novelIDs = append(novelIDs, pgUUID(r.novelID))
		slugs = append(slugs, r.slug)
		titles = append(titles, r.title)
		states = append(states, r.state)
		owners = append(owners, r.newOwner())
		versions = append(versions, int32(r.version)) //nolint:gosec // the column is an integer; its check refuses overflow
		details = append(details, string(encoded))
	}
	if len(folded) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, titlesInsertSQL, folded, novelIDs, slugs, titles, states, owners, versions,
		details); err != nil {
		return fmt.Errorf("insert titles: %w", err)
	}
	return nil
}

func updateTitles(ctx context.Context, tx database.Execer, rows []*titleRow) error {
	var (
		novelIDs, owners        []pgtype.UUID
		titles, states, patches []string
		toHost                  []bool
		versions                []int32
	)
	for _, r := range rows {
		if r.opened {
			continue // the new row is up to date
		}
		patch, err := json.Marshal(r.details)
		if err != nil {
			return fmt.Errorf("encode details of novel %s: %w", r.novelID, err)
		}
		novelIDs = append(novelIDs, pgUUID(r.novelID))
		titles = append(titles, r.title)
		states = append(states, r.state)
		owners = append(owners, r.newOwner())
		toHost = append(toHost, r.toHost)
		versions = append(versions, int32(r.version)) //nolint:gosec // the column is an integer; its check refuses overflow
		patches = append(patches, string(patch))
	}
	if len(novelIDs) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, titlesUpdateSQL, novelIDs, titles, states, owners, toHost, versions, patches); err != nil {
		return fmt.Errorf("update titles: %w", err)
	}
	return nil
}

//go:embed threads_insert.sql
var threadsInsertSQL string

// Threads is the inline projection threads: the discussion thread of each novel.
type Threads struct{}

// Name implements Projection.
func (Threads) Name() string { return "threads" }

// Generation implements Projection.
func (Threads) Generation() int { return 1 }

// Tables implements Projection.
func (Threads) Tables() []string { return []string{"threads"} }

// Streams implements Projection.
func (Threads) Streams() []string { return []string{events.ThreadStream} }

// Apply implements Projection.
func (Threads) Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	type opened struct{ novelID, threadID uuid.UUID }
	var rows []opened
	for _, recorded := range batch {
		if e, ok := recorded.Event.(events.ThreadOpened); ok {
			rows = append(rows, opened{e.NovelID, recorded.StreamID})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	slices.SortFunc(rows, func(a, b opened) int { return compareIDs(a.novelID, b.novelID) })
	var novels, threads []pgtype.UUID
	for _, row := range rows {
		novels = append(novels, pgUUID(row.novelID))
		threads = append(threads, pgUUID(row.threadID))
	}
	if _, err := tx.Exec(ctx, threadsInsertSQL, novels, threads); err != nil {
		return fmt.Errorf("insert threads: %w", err)
	}
	return nil
}
