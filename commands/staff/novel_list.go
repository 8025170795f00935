package staff

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/novel"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/title"
)

// Owners other than integrations.
const (
	Host    = "host" // the host platform, for a published novel
	NoOwner = "none" // for a title that was barred
)

// Novel is a novel as staff see it, with the members of SPEC 2.1 and 2.2.
type Novel struct {
	NovelID       uuid.UUID   `json:"novelId"`
	Slug          string      `json:"slug"`
	Title         string      `json:"novel"`
	Author        string      `json:"author"`
	Synopsis      string      `json:"synopsis"`
	CoverURL      string      `json:"coverUrl"`
	Genres        []string    `json:"genres"`
	Language      string      `json:"language"`
	ReadingStatus string      `json:"readingStatus"`
	Owner         string      `json:"owner"` // an integration's id, Host or NoOwner
	State         novel.State `json:"state"`
	FoldedTitle   string      `json:"-"` // sort key of lists
}

const novelColumns = `SELECT novel_id, slug, title, state, owner_id, details, folded_title FROM title_lookup`

// Novel finds a novel by its title; ErrNovelNotFound when there is none.
func (s *Staff) Novel(ctx context.Context, spelling string) (Novel, error) {
	return find(ctx, s, "novel", fmt.Errorf("%w: %q", ErrNovelNotFound, title.Clean(spelling)), scanNovel,
		novelColumns+` WHERE folded_title = $1`, title.Fold(spelling))
}

// NovelByID finds a novel by its id; ErrNoSuchNovel when there is none.
func (s *Staff) NovelByID(ctx context.Context, id uuid.UUID) (Novel, error) {
	return find(ctx, s, "novel", fmt.Errorf("%w: %s", ErrNoSuchNovel, id), scanNovel, novelColumns+` WHERE novel_id = $1`,
		id)
}

// NovelFilter selects novels. The zero value selects all.
type NovelFilter struct {
	State novel.State // "" for every state
	Owner string      // the id of an integration, Host or NoOwner; "" for every owner
	Text  string      // in the title, ignoring case
	After string      // folded title of the previous page's last novel
	Limit int         // 1 or more
}

const listNovelsSQL = novelColumns + `
WHERE ($1 = '' OR state = $1)
  AND CASE $2 WHEN '' THEN true WHEN 'host' THEN state = 'published' WHEN 'none' THEN owner_id IS NULL
      AND state <> 'published' ELSE owner_id::text = $2 END
  AND ($3 = '' OR strpos(folded_title, $3) > 0) AND folded_title > $4
ORDER BY folded_title LIMIT $5`

// ListNovels lists novels and barred titles, sorted by folded title.
func (s *Staff) ListNovels(ctx context.Context, f NovelFilter) ([]Novel, error) {
	return list(ctx, s, "novels", scanNovel, listNovelsSQL, string(f.State), f.Owner, title.Fold(f.Text), f.After, f.Limit)
}

func scanNovel(row pgx.CollectableRow) (Novel, error) {
	var n Novel
	var owner uuid.NullUUID
	var encoded []byte
	if err := row.Scan(&n.NovelID, &n.Slug, &n.Title, &n.State, &owner, &encoded, &n.FoldedTitle); err != nil {
		return Novel{}, fmt.Errorf("scan novel: %w", err)
	}
	switch {
	case owner.Valid:
		n.Owner = owner.UUID.String()
	case n.State == novel.Published:
		n.Owner = Host
	default:
		n.Owner = NoOwner
	}
	var d novel.Details
	if err := json.Unmarshal(encoded, &d); err != nil {
		return Novel{}, fmt.Errorf("decode details of novel %s: %w", n.NovelID, err)
	}
	n.Author, n.Synopsis, n.CoverURL, n.Language, n.ReadingStatus = d.Author, d.Synopsis, d.CoverURL, d.Language,
		d.ReadingStatus
	n.Genres = append([]string{}, d.Genres...) // never nil
	return n, nil
}

// latestEvents limits the history of a novel: each update by a partner is an event.
const latestEvents = 1000

// historyBytes is the size as JSON at which a history takes no older events.
const historyBytes = 512 << 10

// NovelHistory returns the latest thousand events of a novel, oldest first, fewer if they are large.
func (s *Staff) NovelHistory(ctx context.Context, id uuid.UUID) ([]HistoryEntry, error) {
	recorded, err := eventlog.ReadStreamEnd(ctx, s.Pool, events.NovelStream, id, latestEvents)
	if err != nil {
		return nil, err
	}
	size, first := 0, len(recorded)
	for ; first > 0 && size < historyBytes; first-- {
		data, err := json.Marshal(recorded[first-1].Event)
		if err != nil {
			return nil, fmt.Errorf("measure event of novel %s: %w", id, err)
		}
		size += len(data)
	}
	return historyOf(recorded[first:]), nil
}

// HistoryEntry is one event of a novel, a post or an author.
type HistoryEntry struct {
	Version    int       `json:"version"`
	Type       string    `json:"type"`
	Actor      string    `json:"actor"`
	RecordedAt time.Time `json:"recordedAt"`
	Data       any       `json:"data"`
	Personal   any       `json:"personal,omitzero"` // personal data; absent after erasure
}

func historyOf(recorded []events.Recorded) []HistoryEntry {
	history := make([]HistoryEntry, len(recorded))
	for i, r := range recorded {
		history[i] = HistoryEntry{
			r.StreamVersion, r.Event.Type(), r.Metadata.Actor, r.RecordedAt, r.Event, events.Personal(r.Event),
		}
	}
	return history
}
