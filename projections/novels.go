package projections

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
	"novelgate/internal/database"
)

var (
	//go:embed novels_insert.sql
	novelsInsertSQL string
	//go:embed novels_update.sql
	novelsUpdateSQL string
)

// Novels is the projection novels: one row per novel as it is now, with when and how often it was updated and
// moderated. An update counts although nothing changed; every move of staff counts as a moderation.
type Novels struct{}

// Name implements Projection.
func (Novels) Name() string { return "novels" }

// Generation is the generation of this code: a change that makes other rows of the same events raises it.
func (Novels) Generation() int { return 1 }

// Tables names what the projection writes.
func (Novels) Tables() []string { return []string{"novels"} }

// Streams names the kinds of stream that the projection looks at.
func (Novels) Streams() []string { return []string{events.NovelStream} }

// Apply implements Projection.
func (Novels) Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	changes := foldNovels(batch)
	if err := insertNovels(ctx, tx, changes); err != nil {
		return err
	}
	return updateNovels(ctx, tx, changes)
}

// novelChange gathers what a batch does to one novel.
type novelChange struct {
	novelID   uuid.UUID
	created   *events.NovelCreated // nil when the novel is older than the batch
	createdAt time.Time
	createdAs int // version

	// What came after the creation.
	version              int // 0 when nothing did
	patch                events.NovelUpdated
	state                pgtype.Text // invalid when it stays
	toHost               bool
	updatedAt            pgtype.Timestamptz
	moderatedAt          pgtype.Timestamptz
	updates, moderations []int // versions
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
			change = &novelChange{novelID: recorded.StreamID}
			byID[recorded.StreamID] = change
			changes = append(changes, change)
		}
		change.add(recorded)
	}
	slices.SortFunc(changes, func(a, b *novelChange) int { return bytes.Compare(a.novelID[:], b.novelID[:]) })
	return changes
}

func (c *novelChange) add(recorded *events.Recorded) {
	switch e := recorded.Event.(type) {
	case events.NovelCreated:
		// Whatever the stream holds before it was not about a novel.
		*c = novelChange{novelID: c.novelID, created: &e, createdAt: recorded.RecordedAt, createdAs: recorded.StreamVersion}
		return
	case events.NovelUpdated:
		p := &c.patch
		p.Author = cmp.Or(e.Author, p.Author)
		p.Synopsis = cmp.Or(e.Synopsis, p.Synopsis)
		p.CoverURL = cmp.Or(e.CoverURL, p.CoverURL)
		p.Genres = cmp.Or(e.Genres, p.Genres)
		p.Language = cmp.Or(e.Language, p.Language)
		p.ReadingStatus = cmp.Or(e.ReadingStatus, p.ReadingStatus)
		c.updatedAt = pgtype.Timestamptz{Time: recorded.RecordedAt, Valid: true}
		c.updates = append(c.updates, recorded.StreamVersion)
	case events.NovelPublished:
		c.moderate(recorded, "published")
		c.toHost = true
	case events.NovelApproved:
		c.moderate(recorded, "approved")
	case events.NovelRejected:
		c.moderate(recorded, "rejected")
	default: // changes nothing but the version
	}
	c.version = recorded.StreamVersion
}

func (c *novelChange) moderate(recorded *events.Recorded, state string) {
	c.state = pgtype.Text{String: state, Valid: true}
	c.moderatedAt = pgtype.Timestamptz{Time: recorded.RecordedAt, Valid: true}
	c.moderations = append(c.moderations, recorded.StreamVersion)
}

func insertNovels(ctx context.Context, tx database.Execer, changes []*novelChange) error {
	var (
		ids, owners                                                           []pgtype.UUID
		titles, slugs, authors, synopses, covers, genres, languages, statuses []string
		states                                                                []string
		createdAt                                                             []time.Time
		versions                                                              []int32
	)
	for _, c := range changes {
		if c.created == nil {
			continue
		}
		encoded, err := genresJSON(c.created.Genres)
		if err != nil {
			return fmt.Errorf("encode genres of novel %s: %w", c.novelID, err)
		}
		ids = append(ids, present(c.novelID))
		titles, slugs, authors = append(titles, c.created.Title), append(slugs, c.created.Slug),
			append(authors, c.created.Author)
		synopses, covers, genres = append(synopses, c.created.Synopsis), append(covers, c.created.CoverURL),
			append(genres, encoded)
		languages, statuses = append(languages, c.created.Language), append(statuses, c.created.ReadingStatus)
		states = append(states, c.created.State)
		var owner pgtype.UUID
		if c.created.OwnerID != nil {
			owner = present(*c.created.OwnerID)
		}
		owners = append(owners, owner)
		createdAt = append(createdAt, c.createdAt)
		versions = append(versions, int32(c.createdAs)) //nolint:gosec // the column is an integer; its check refuses overflow
	}
	if len(ids) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, novelsInsertSQL, ids, titles, slugs, authors, synopses, covers, genres, languages, statuses,
		states, owners,
		createdAt, versions); err != nil {
		return fmt.Errorf("insert novels: %w", err)
	}
	return nil
}
