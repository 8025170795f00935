package projections

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/database"
	"novelgate/internal/title"
)

var (
	//go:embed novels_insert.sql
	novelsInsertSQL string
	//go:embed novels_update.sql
	novelsUpdateSQL string
)

// Novels is the projection novels: one row per novel with its current state, the numbers of updates and moderations,
// and the times of the latest ones. An update counts even without changes; every change of state by staff counts as a
// moderation.
type Novels struct{}

// Name implements Projection.
func (Novels) Name() string { return "novels" }

// Generation implements Projection.
func (Novels) Generation() int { return 1 }

// Tables implements Projection.
func (Novels) Tables() []string { return []string{"novels"} }

// Streams implements Projection.
func (Novels) Streams() []string { return []string{events.NovelStream} }

// Apply implements Projection.
func (Novels) Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	var created, changed []novelRow
	for _, c := range foldNovels(batch) {
		if c.created != nil {
			created = append(created, *c.created)
		}
		if c.StreamVersion > 0 {
			changed = append(changed, c.novelRow)
		}
	}
	if err := writeNovels(ctx, tx, novelsInsertSQL, created); err != nil {
		return err
	}
	return writeNovels(ctx, tx, novelsUpdateSQL, changed)
}

// novelChange is the change of one novel by a batch: its creation, nil when the novel is older, and the later changes,
// with version 0 when there are none.
type novelChange struct {
	created *novelRow
	novelRow
}

// foldNovels returns the novels of a batch, one entry each, in the order of their identifiers.
func foldNovels(batch []events.Recorded) []*novelChange {
	byID := map[uuid.UUID]*novelChange{}
	var changes []*novelChange
	for i := range batch {
		recorded := &batch[i]
		if recorded.StreamType != events.NovelStream {
			continue
		}
		change, known := byID[recorded.StreamID]
		if !known {
			change = &novelChange{novelRow: novelRow{NovelID: recorded.StreamID}}
			byID[recorded.StreamID] = change
			changes = append(changes, change)
		}
		change.add(recorded)
	}
	slices.SortFunc(changes, func(a, b *novelChange) int { return compareIDs(a.NovelID, b.NovelID) })
	return changes
}

func (c *novelChange) add(recorded *events.Recorded) {
	switch e := recorded.Event.(type) {
	case events.NovelCreated:
		// Earlier events of the stream barred and unbarred the title; they do not count as changes.
		*c = novelChange{novelRow: novelRow{NovelID: c.NovelID}, created: &novelRow{
			NovelID: c.NovelID, Title: e.Title, Slug: e.Slug, Author: &e.Author, Synopsis: &e.Synopsis, CoverURL: &e.CoverURL,
			Genres: &e.Genres, Language: &e.Language, ReadingStatus: &e.ReadingStatus, State: &e.State, OwnerID: e.OwnerID,
			CreatedAt: recorded.RecordedAt, StreamVersion: recorded.StreamVersion,
		}}
		return
	case events.NovelUpdated:
		c.Author, c.Synopsis = cmp.Or(e.Author, c.Author), cmp.Or(e.Synopsis, c.Synopsis)
		c.CoverURL, c.Genres = cmp.Or(e.CoverURL, c.CoverURL), cmp.Or(e.Genres, c.Genres)
		c.Language, c.ReadingStatus = cmp.Or(e.Language, c.Language), cmp.Or(e.ReadingStatus, c.ReadingStatus)
		c.UpdatedAt = &recorded.RecordedAt
		c.Updates++
	case events.NovelPublished:
		c.moderate(recorded, "published")
		c.ToHost = true
	case events.NovelApproved:
		c.moderate(recorded, "approved")
	case events.NovelRejected:
		c.moderate(recorded, "rejected")
	default: // changes only the version
	}
	c.StreamVersion = recorded.StreamVersion
}

func (c *novelChange) moderate(recorded *events.Recorded, state string) {
	c.State, c.ModeratedAt = &state, &recorded.RecordedAt
	c.Moderations++
}

// novelRow is a row of novels_insert.sql or novels_update.sql, as JSON. In an update, null leaves a column unchanged.
type novelRow struct {
	NovelID       uuid.UUID  `json:"novel_id"`
	Title         string     `json:"title,omitzero"`
	Slug          string     `json:"slug,omitzero"`
	Author        *string    `json:"author"`
	Synopsis      *string    `json:"synopsis"`
	CoverURL      *string    `json:"cover_url"`
	Genres        *[]string  `json:"genres"`
	Language      *string    `json:"language"`
	ReadingStatus *string    `json:"reading_status"`
	State         *string    `json:"state"`
	OwnerID       *uuid.UUID `json:"owner_id,omitzero"`
	CreatedAt     time.Time  `json:"created_at,omitzero"`
	ToHost        bool       `json:"to_host"`
	UpdatedAt     *time.Time `json:"updated_at"`
	ModeratedAt   *time.Time `json:"moderated_at"`
	Updates       int        `json:"updates"`
	Moderations   int        `json:"moderations"`
	StreamVersion int        `json:"stream_version"`

	// What searches and filters compare. SQL cannot make it: lower depends on the locale of the database.
	TitleSearch    string  `json:"title_search,omitzero"`
	AuthorSearch   *string `json:"author_search"`
	FoldedLanguage *string `json:"folded_language"`
}

func (r *novelRow) fold() {
	r.TitleSearch = title.Search(r.Title)
	if r.Author != nil {
		r.AuthorSearch = new(title.Search(*r.Author))
		if *r.Author == "Unknown" { // the default of SPEC 2.1: a search for this word means a title
			*r.AuthorSearch = ""
		}
	}
	if r.Language != nil {
		r.FoldedLanguage = new(title.Fold(*r.Language))
	}
}

// writeNovels executes a statement with rows, if there are any.
func writeNovels(ctx context.Context, tx database.Execer, sql string, rows []novelRow) error {
	if len(rows) == 0 {
		return nil
	}
	encoded := make([]string, len(rows))
	for i := range rows {
		rows[i].fold()
		row, err := json.Marshal(&rows[i])
		if err != nil {
			return fmt.Errorf("encode novel %s: %w", rows[i].NovelID, err)
		}
		encoded[i] = string(row)
	}
	if _, err := tx.Exec(ctx, sql, encoded); err != nil {
		return fmt.Errorf("write novels: %w", err)
	}
	return nil
}
