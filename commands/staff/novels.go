package staff

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/novel"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/names"
	"novelgate/internal/title"
)

// Refusals about novels.
var (
	ErrNovelNotFound = errors.New("no novel has this title") // for a command that names a title
	ErrNoSuchNovel   = errors.New("no such novel")           // for a command that names an id
	ErrTitleInvalid  = fmt.Errorf("a title must have 1 to %d characters of valid UTF-8", title.MaxLen)
)

// UnknownTitleError is the ErrNovelNotFound of a title.
type UnknownTitleError struct{ Title string }

func (e *UnknownTitleError) Error() string { return fmt.Sprintf("%v: %q", ErrNovelNotFound, e.Title) }

// Unwrap returns ErrNovelNotFound.
func (e *UnknownTitleError) Unwrap() error { return ErrNovelNotFound }

// PublishNovel makes a title canonical and sets fields of the novel, in one transaction. It creates an unknown novel
// and takes over a partner's novel. The fields must be valid.
func (s *Staff) PublishNovel(ctx context.Context, spelling string, fields novel.Fields, reason string) (Novel, error) {
	return s.moderateTitle(ctx, spelling, checkReason(reason), publish(fields, reason))
}

// PublishByID publishes the novel with an id; ErrNoSuchNovel when there is none.
func (s *Staff) PublishByID(ctx context.Context, id uuid.UUID, reason string) (Novel, error) {
	return s.moderate(ctx, id, checkReason(reason), "", publish(novel.Fields{}, reason))
}

// ApproveNovel approves a pending or rejected novel. A barred title becomes free. It fails with ErrNovelNotFound when
// the title is unknown.
func (s *Staff) ApproveNovel(ctx context.Context, spelling, reason string) (Novel, error) {
	return s.moderateTitle(ctx, spelling, requireReason(reason), approve(reason))
}

// ApproveByID approves the novel with an id, as ApproveNovel does; ErrNoSuchNovel when there is none.
func (s *Staff) ApproveByID(ctx context.Context, id uuid.UUID, reason string) (Novel, error) {
	return s.moderate(ctx, id, requireReason(reason), "", approve(reason))
}

// RejectNovel rejects a pending or approved novel, or bars a title without a novel.
func (s *Staff) RejectNovel(ctx context.Context, spelling, reason string) (Novel, error) {
	return s.moderateTitle(ctx, spelling, requireReason(reason), reject(reason))
}

// RejectByID rejects the novel with an id, or bars a free title; ErrNoSuchNovel when there is none.
func (s *Staff) RejectByID(ctx context.Context, id uuid.UUID, reason string) (Novel, error) {
	return s.moderate(ctx, id, requireReason(reason), "", reject(reason))
}

// EditNovel changes fields of a canonical novel. The fields must be valid. It fails with a *novel.EditError on a novel
// that is not canonical.
func (s *Staff) EditNovel(ctx context.Context, id uuid.UUID, fields novel.Fields, reason string) (Novel, error) {
	return s.moderate(ctx, id, checkReason(reason), "",
		func(n novel.Novel, _, _ string) ([]events.Event, error) { return asList(n.Edit(fields, reason)) })
}

// novelDecision decides on a novel. spelling is the title as the command spells it, or the novel's title if the command
// names an id. slug is free for a novel that has none.
type novelDecision func(n novel.Novel, spelling, slug string) ([]events.Event, error)

func publish(fields novel.Fields, reason string) novelDecision {
	return func(n novel.Novel, spelling, slug string) ([]events.Event, error) {
		return n.Publish(novel.Publication{Title: spelling, Slug: slug, Fields: fields, Reason: reason})
	}
}

func approve(reason string) novelDecision {
	return func(n novel.Novel, spelling, _ string) ([]events.Event, error) {
		if n.Version == 0 {
			return nil, &UnknownTitleError{spelling}
		}
		return asList(n.Approve(reason))
	}
}

func reject(reason string) novelDecision {
	return func(n novel.Novel, spelling, slug string) ([]events.Event, error) {
		if n.Exists() {
			return asList(n.Reject(reason))
		}
		return asList(n.Bar(spelling, slug, reason))
	}
}

// asList converts a decision of at most one event to a list.
func asList(event events.Event, err error) ([]events.Event, error) {
	if event == nil || err != nil {
		return nil, err
	}
	return []events.Event{event}, nil
}

// cleanTitle returns a title in the form in which it is stored. It refuses an invalid one with ErrTitleInvalid.
func cleanTitle(spelling string) (string, error) {
	spelling = title.Clean(spelling)
	if n := utf8.RuneCountInString(spelling); n < 1 || n > title.MaxLen || !utf8.ValidString(spelling) ||
		strings.ContainsRune(spelling, 0) {
		return "", ErrTitleInvalid
	}
	return spelling, nil
}

// moderateTitle executes a decision on the novel with a title, which may be unknown.
func (s *Staff) moderateTitle(
	ctx context.Context, spelling string, reasonErr error, decide novelDecision,
) (Novel, error) {
	spelling, err := cleanTitle(spelling)
	if err != nil {
		return Novel{}, err
	}
	folded := title.Fold(spelling)
	var id uuid.UUID
	err = s.Pool.QueryRow(ctx, `SELECT novel_id FROM title_lookup WHERE folded_title = $1`, folded).Scan(&id)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		id = events.NovelID(folded)
	case err != nil:
		return Novel{}, fmt.Errorf("look up title: %w", err)
	}
	return s.moderate(ctx, id, reasonErr, spelling, decide)
}

// moderate executes a decision on a novel and returns the new state of the novel. Without a spelling the novel must
// exist. If reasonErr, the refusal of the reason, is not nil, it fails with that. It decides on the projection, like
// partners' commands, because the stream is long: it has an event for each update.
func (s *Staff) moderate(
	ctx context.Context, id uuid.UUID, reasonErr error, spelling string, decide novelDecision,
) (Novel, error) {
	if reasonErr != nil {
		return Novel{}, reasonErr
	}
	err := s.execute(ctx, stream{events.NovelStream, id}, func(db database.Querier) (int, []events.Event, error) {
		n, err := novelState(ctx, db, id)
		if err != nil {
			return 0, nil, err
		}
		named := cmp.Or(spelling, n.Title)
		if named == "" {
			return 0, nil, fmt.Errorf("%w: %s", ErrNoSuchNovel, id)
		}
		slug, err := freeSlug(ctx, db, n, named)
		if err != nil {
			return 0, nil, err
		}
		decided, err := decide(n, named, slug)
		return n.Version, decided, err
	}, nil)
	if err != nil {
		return Novel{}, err
	}
	return s.NovelByID(ctx, id)
}

const novelStateSQL = `SELECT slug, title, state, owner_id, stream_version, details FROM title_lookup WHERE novel_id = $1`

// novelState returns the state of a novel for decisions, with version 0 when there is none.
func novelState(ctx context.Context, db database.Querier, id uuid.UUID) (novel.Novel, error) {
	n := novel.Novel{ID: id}
	var encoded []byte
	err := db.QueryRow(ctx, novelStateSQL, id).Scan(&n.Slug, &n.Title, &n.State, &n.OwnerID, &n.Version, &encoded)
	if errors.Is(err, pgx.ErrNoRows) {
		return n, nil
	}
	if err != nil {
		return n, fmt.Errorf("read novel %s: %w", id, err)
	}
	if err := json.Unmarshal(encoded, &n.Details); err != nil {
		return n, fmt.Errorf("decode details of novel %s: %w", id, err)
	}
	return n, nil
}

// freeSlug picks the slug for the first event of a title. It returns "" when the title already has a slug.
func freeSlug(ctx context.Context, db database.Querier, n novel.Novel, spelling string) (string, error) {
	if n.Slug != "" {
		return "", nil
	}
	candidates := novel.SlugCandidates(title.Slug(spelling), n.ID)
	found, err := database.Collect(ctx, db, "slugs", pgx.RowTo[string],
		`SELECT slug FROM title_lookup WHERE slug = ANY ($1::text[])`, candidates)
	if err != nil {
		return "", err
	}
	taken := make(map[string]struct{}, len(found))
	for _, slug := range found {
		taken[slug] = struct{}{}
	}
	return novel.PickSlug(candidates, taken), nil
}

// Owners other than integrations.
const (
	Host    = "host" // of a published novel: the host platform
	NoOwner = "none" // of a title that was barred
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
	FoldedTitle   string      `json:"-"`                  // sort key of lists
	OwnerName     string      `json:"ownerName,omitzero"` // of an integration; like History only if it was asked for
	// History has the latest events, oldest first, if they were asked for.
	History []HistoryEntry `json:"history,omitzero"`
}

const novelColumns = `SELECT novel_id, slug, title, state, owner_id, details, folded_title FROM title_lookup`

// Novel finds a novel by its title; ErrNovelNotFound when there is none.
func (s *Staff) Novel(ctx context.Context, spelling string) (Novel, error) {
	return find(ctx, s, "novel", &UnknownTitleError{title.Clean(spelling)}, scanNovel,
		novelColumns+` WHERE folded_title = $1`, title.Fold(spelling))
}

// NovelByID finds a novel by its id; ErrNoSuchNovel when there is none.
func (s *Staff) NovelByID(ctx context.Context, id uuid.UUID) (Novel, error) {
	return find(ctx, s, "novel", fmt.Errorf("%w: %s", ErrNoSuchNovel, id), scanNovel, novelColumns+` WHERE novel_id = $1`,
		id)
}

// NovelFilter selects novels. Without State, Owner and Text it selects all.
type NovelFilter struct {
	State novel.State // "" for every state
	Owner string      // the id of an integration, Host or NoOwner; "" for every owner
	Text  string      // in the title, ignoring case
	After string      // folded title of the previous page's last novel
	Limit int         // 1 or more
}

// examinedTitles is the maximum number of titles of which a page is chosen: no index has what a filter selects. A page
// with a filter that matches little may have fewer novels than its limit, even none, before the last page.
const examinedTitles = 20_000

// novelsPageSQL has :walk for a condition of the titles to examine.
const novelsPageSQL = `SELECT * FROM (` + novelColumns + ` WHERE folded_title > $4 :walk ORDER BY folded_title LIMIT $6) AS walked
WHERE ($1 = '' OR state = $1)
  AND CASE $2 WHEN '' THEN true WHEN 'host' THEN state = 'published' WHEN 'none' THEN owner_id IS NULL
      AND state <> 'published' ELSE owner_id::text = $2 END
  AND ($3 = '' OR strpos(folded_title, $3) > 0)
ORDER BY folded_title LIMIT $5`

const lastTitleSQL = `SELECT folded_title FROM title_lookup WHERE folded_title > $1 :walk ORDER BY folded_title OFFSET $2 LIMIT 1`

// NovelPage is a page of novels. Next is the After of the next page; "" on the last one.
type NovelPage struct {
	Items []Novel
	Next  string
}

// NovelsPage reads a page of novels and barred titles, sorted by folded title.
func (s *Staff) NovelsPage(ctx context.Context, f NovelFilter) (NovelPage, error) {
	walk := ""
	if f.State == novel.Pending { // few, and they have an index
		walk = "AND state = 'pending'"
	}
	found, err := database.Collect(ctx, s.Pool, "novels", scanNovel, strings.Replace(novelsPageSQL, ":walk", walk, 1),
		string(f.State), f.Owner, title.Fold(f.Text), f.After, f.Limit+1, examinedTitles)
	if err != nil {
		return NovelPage{}, err
	}
	if len(found) > f.Limit {
		return NovelPage{found[:f.Limit], found[f.Limit-1].FoldedTitle}, nil
	}
	last, err := database.Collect(ctx, s.Pool, "last title", pgx.RowTo[string],
		strings.Replace(lastTitleSQL, ":walk", walk, 1), f.After, examinedTitles-1)
	if err != nil || len(last) == 0 {
		return NovelPage{Items: found}, err
	}
	return NovelPage{found, last[0]}, nil
}

// ListNovels lists up to f.Limit novels, over as many pages as it takes.
func (s *Staff) ListNovels(ctx context.Context, f NovelFilter) ([]Novel, error) {
	const page = 1000 // the largest limit has no room for one more, with which NovelsPage sees that there are more
	items, limit := []Novel{}, f.Limit
	for len(items) < limit {
		f.Limit = min(limit-len(items), page)
		found, err := s.NovelsPage(ctx, f)
		if err != nil {
			return nil, err
		}
		items = append(items, found.Items...)
		if f.After = found.Next; f.After == "" {
			break
		}
	}
	return items, nil
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

// maxHistory limits the history of a novel, in which each update by a partner is an event of up to 32 KB, and of an
// integration.
const maxHistory = 100

// NovelWithHistory finds a novel as NovelByID does, with its latest hundred events.
func (s *Staff) NovelWithHistory(ctx context.Context, id uuid.UUID) (Novel, error) {
	found, err := s.NovelByID(ctx, id)
	if err != nil {
		return Novel{}, err
	}
	recorded, err := eventlog.ReadStreamEnd(ctx, s.Pool, events.NovelStream, id, maxHistory)
	if err != nil {
		return Novel{}, err
	}
	if found.History, err = historyOf(ctx, s.Pool, recorded); err != nil {
		return Novel{}, err
	}
	owner := names.Integration("integration:" + found.Owner)
	called, err := names.Of(ctx, s.Pool, owner)
	found.OwnerName = called[owner]
	return found, err
}
