package readapi

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/aggregates/novel"
	"novelgate/internal/web"
)

// firstReplies is the number of replies of each top-level comment on a page.
const firstReplies = 10

// NoChapter is the Chapter of comments on the novel as a whole.
const NoChapter = "none"

// DiscussionParams selects a part of a discussion. With only Slug and Limit it is the first page, oldest comments
// first.
type DiscussionParams struct {
	Slug    string        // may be any text
	Newest  bool          // newest comments first
	Chapter string        // top-level comments on a chapter, an exact decimal, or NoChapter; "" for all
	UpTo    string        // comments on chapters up to this one, and on the novel as a whole, an exact decimal; "" for all
	Cursor  string        // of another page with the same parameters
	Limit   int           // number of top-level comments; with Under: of replies
	Under   uuid.NullUUID // the replies of this top-level comment
	Post    uuid.NullUUID // the page with this comment, regardless of Chapter, and of UpTo if its chapter is a later one
}

// defaultReplies is the size of a page of replies.
const defaultReplies = 50

// ParseDiscussion parses the parameters of a discussion: sort (default: newest), chapter, upTo, cursor, limit, under,
// post. The error is a *problem.Error that names every invalid parameter.
func ParseDiscussion(slug string, q *web.Query) (DiscussionParams, error) {
	params := DiscussionParams{
		Slug: slug, Newest: q.OneOf("sort", "newest", "oldest") != "oldest", Chapter: q.Text("chapter"),
		UpTo: q.Text("upTo"), Cursor: q.Text("cursor"), Under: q.ID("under"), Post: q.ID("post"),
	}
	limit := defaultLimit
	if params.Under.Valid {
		limit = defaultReplies
	}
	params.Limit = q.Limit(limit, maxLimit)
	if params.Chapter != "" && params.Chapter != NoChapter && !decimal.MatchString(params.Chapter) {
		q.Refuse("chapter", fmt.Sprintf("must be a decimal number or %s", NoChapter))
	}
	if params.UpTo != "" && !decimal.MatchString(params.UpTo) {
		q.Refuse("upTo", "must be a decimal number")
	}
	switch {
	case !params.Post.Valid:
	case params.Under.Valid:
		q.Refuse("post", "cannot be given together with under")
	case params.Cursor != "":
		q.Refuse("post", "cannot be given together with cursor: either says where the page begins")
	}
	return params, q.Err()
}

// decimal is the form of a chapter number: without sign and exponent. It allows at least as many digits as a partner
// may send.
var decimal = regexp.MustCompile(`^[0-9]{1,7}(\.[0-9]{1,40})?$`)

// Page is one page of a discussion.
type Page struct {
	Novel            Heading           `json:"novel"`
	ThreadID         uuid.NullUUID     `json:"threadId"` // null without comments
	TopLevelComments []TopLevelComment `json:"items"`
	Previous         Text              `json:"previousCursor"` // Cursor of the previous page; "" on the first page
	Next             Text              `json:"nextCursor"`     // Cursor of the next page; "" on the last page
	Counts           Counts            `json:"counts"`
	UpTo             string            `json:"-"` // of DiscussionParams; "" if the page has a comment on a later chapter
}

// Counts are of the discussion or of the selected chapters, hidden and erased comments included. They come from the
// projection activity, so they may be milliseconds behind the comments or ahead of them.
type Counts struct {
	TopLevel int           `json:"comments"`
	Replies  int           `json:"replies"`
	LastPost uuid.NullUUID `json:"lastPostId"` // the comment of the discussion that was written last; null without one
}

// All returns every top-level comment, each followed by its replies.
func (p *Page) All() iter.Seq[*Post] {
	return func(yield func(*Post) bool) {
		for i := range p.TopLevelComments {
			t := &p.TopLevelComments[i]
			if !yield(&t.Post) {
				return
			}
			for j := range t.Replies {
				if !yield(&t.Replies[j]) {
					return
				}
			}
		}
	}
}

// Heading is the short form of a novel.
type Heading struct {
	ID       uuid.UUID `json:"novelId"`
	Slug     string    `json:"slug"`
	Title    string    `json:"novel"`
	URL      string    `json:"url"`
	Language string    `json:"-"`
	CoverURL string    `json:"-"`

	state novel.State
}

// TopLevelComment is a top-level comment with some of its replies.
type TopLevelComment struct {
	Post `json:",inline"`

	// Replies has each reply after its parent, and the replies to one comment in the order of writing.
	Replies       []Post `json:"replies"`
	Continued     bool   `json:"-"`             // Replies do not start with the first one
	RepliesCursor Text   `json:"repliesCursor"` // Cursor of further replies, for use with Under; "" for none
}

// pageQuery has the parameters of a page of a discussion, with the values of the statement that are derived from them.
type pageQuery struct {
	DiscussionParams

	descending  bool      // latest time of writing first
	backward    bool      // a previous page: read in reverse of the requested order
	preceded    bool      // in the requested order there are top-level comments before start
	start       place     // of the first top-level comment to read
	replies     int       // maximum number of replies of each top-level comment
	repliesOf   uuid.UUID // the top-level comment whose replies start at repliesFrom
	repliesFrom place
	single      bool // read only one top-level comment
}

// newPageQuery returns the query of the first page.
func newPageQuery(params DiscussionParams) pageQuery {
	q := pageQuery{
		DiscussionParams: params, start: lowest, descending: params.Newest, replies: firstReplies, repliesFrom: lowest,
	}
	if params.Newest {
		q.start = highest
	}
	return q
}

//go:embed locate.sql
var locateSQL string

// Discussion reads a page. It fails with ErrNotFound, ErrGone, ErrNotYet or ErrCursor.
func (r *Reader) Discussion(ctx context.Context, params DiscussionParams) (*Page, error) {
	if !web.IsText(params.Slug) {
		return nil, ErrNotFound
	}
	q := newPageQuery(params)
	kind, at := byte(0), place{}
	if q.Cursor != "" {
		var err error
		if kind, at, err = decodeCursor(q.Cursor); err != nil || (kind == replies) != q.Under.Valid {
			return nil, ErrCursor
		}
	}
	switch kind {
	case onward:
		q.preceded, q.start = true, at.beside(!q.descending)
	case backward:
		q.backward, q.descending = true, !q.descending
		q.start = at.beside(!q.descending)
	case replies:
		q.repliesFrom = at.beside(true)
	case 0:
	default:
		return nil, ErrCursor
	}
	if id := q.Under; id.Valid {
		found, err := r.locate(ctx, &q, id.UUID)
		if err != nil {
			return nil, err
		}
		if found.root != id.UUID {
			return nil, ErrNotFound // a reply has no page of replies
		}
		q.start, q.replies, q.repliesOf, q.Chapter, q.Limit, q.single = found.start, q.Limit, id.UUID, "", 1, true
	} else if q.Post.Valid && kind == 0 {
		found, err := r.locate(ctx, &q, q.Post.UUID)
		if err != nil {
			return nil, err
		}
		q.start, q.repliesOf, q.Chapter = found.start, found.root, ""
		if q.preceded = found.older; q.Newest {
			q.preceded = found.newer
		}
		if found.beyond {
			q.repliesFrom = found.at
		}
	}
	return r.readPage(ctx, q)
}

// located is the place of a comment in a discussion.
type located struct {
	root         uuid.UUID // its top-level comment
	start        place     // of root
	at           place
	beyond       bool // it comes after the first firstReplies replies of root
	older, newer bool // there are top-level comments older and newer than root
}

// locate finds a comment in the discussion of a novel. If the comment or its top-level comment is on a later chapter
// than q.UpTo, it clears q.UpTo. It fails with ErrNotFound, ErrGone or ErrNotYet.
func (r *Reader) locate(ctx context.Context, q *pageQuery, id uuid.UUID) (located, error) {
	var state novel.State
	var later bool
	found, err := queryOne(ctx, r.DB, func(row pgx.CollectableRow) (l located, err error) {
		err = row.Scan(&state, &l.root, &l.start.at, &l.start.index, &l.at.at, &l.at.index, &later, &l.beyond, &l.older,
			&l.newer)
		return l, err
	}, locateSQL, q.Slug, id, firstReplies, q.upTo())
	if later {
		q.UpTo = ""
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		// The novel decides first: everything below the address of a rejected one is gone.
		n, err := r.Novel(ctx, q.Slug)
		if err != nil {
			return located{}, err
		}
		return located{}, r.missing(ctx, id, uuid.NullUUID{UUID: n.ID, Valid: true})
	case err != nil:
		return located{}, fmt.Errorf("find comment in discussion: %w", err)
	}
	return found, checkPublic(state)
}

//go:embed discussion.sql
var discussionSQL string

// statements are the variants of discussionSQL, by [descending, of one chapter, up to a chapter].
var statements = discussionStatements()

// discussionStatements completes discussionSQL as the comment in the file says.
func discussionStatements() map[[3]bool]string {
	_, template, _ := strings.Cut(discussionSQL, "\nSELECT") // drops the comment above the statement
	template = "SELECT" + template
	without := func(sql, brackets string) string { return regexp.MustCompile(brackets).ReplaceAllString(sql, "") }
	keep := strings.NewReplacer("{", "", "}", "", "[", "", "]", "", ":counts", "v")
	chapter := keep.Replace(template)
	several := keep.Replace(without(template, `\{[^}]*\}`))
	all := without(without(strings.ReplaceAll(template, ":counts", "w"), `\{[^}]*\}`), `\[[^]]*\]`)
	ascending := strings.NewReplacer(":compare", ">=", ":opposite", "<=", ":direction", "ASC")
	descending := strings.NewReplacer(":compare", "<=", ":opposite", ">=", ":direction", "DESC")
	return map[[3]bool]string{
		{false, false, false}: ascending.Replace(all), {true, false, false}: descending.Replace(all),
		{false, true, false}: ascending.Replace(chapter), {true, true, false}: descending.Replace(chapter),
		{false, false, true}: ascending.Replace(several), {true, false, true}: descending.Replace(several),
	}
}

// upTo returns UpTo as the statements take it.
func (q *pageQuery) upTo() string { return cmp.Or(q.UpTo, "Infinity") }

// PageBytes limits the text on a page of a discussion. A top-level comment with its first replies always fits, because
// a request of a partner has at most 32 KB.
const PageBytes = 512 << 10

// statement returns the statement that reads a page, and its arguments. It reads one more top-level comment, and one
// more reply of each, than the page shows, to detect whether there are more.
func (q *pageQuery) statement() (sql string, args []any) {
	args = []any{
		q.Slug, q.start.at, q.start.index, q.Limit + 1, q.replies + 1, q.repliesOf, q.repliesFrom.at, q.repliesFrom.index,
		PageBytes, q.upTo(),
	}
	if q.single {
		args[3] = 1
	}
	switch q.Chapter {
	case "":
	case NoChapter:
		args = append(args, "-1")
	default:
		args = append(args, q.Chapter)
	}
	return statements[[3]bool{q.descending, q.Chapter != "", q.Chapter == "" && q.UpTo != ""}], args
}

// readPage reads and arranges a page.
func (r *Reader) readPage(ctx context.Context, q pageQuery) (*Page, error) {
	page := new(Page)
	n := &page.Novel
	var (
		total                           int
		p                               Post
		id                              uuid.NullUUID
		depth                           pgtype.Int4
		index                           pgtype.Int8
		hidden, cut, withdrawn          pgtype.Bool
		chapter, member, name, platform pgtype.Text // values instead of pointers, which would be allocated
		stored                          personal
		written, received, edited       pgtype.Timestamptz
	)
	comment := []any{ // nil skips a column of the novel
		nil, nil, nil, nil, nil, nil, nil, nil, nil, nil,
		&id, &p.ParentID, &p.RootID, &depth, &chapter, &written, &received, &index, &edited, &withdrawn,
		&hidden, &cut, &stored,
		&member, &name, &platform,
	}
	novel := []any{
		&n.ID, &n.Slug, &n.Title, &n.state, &n.Language, &n.CoverURL, &page.ThreadID, &total,
		&page.Counts.Replies, &page.Counts.LastPost,
	}
	posts := make([]Post, 0, q.Limit*2)
	sql, args := q.statement()
	rows, err := r.DB.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read discussion: %w", err)
	}
	defer rows.Close()
	target := slices.Concat(novel, comment[len(novel):])
	for ; rows.Next(); target = comment { // the novel is the same in every row, so scan it once
		if err := rows.Scan(target...); err != nil {
			return nil, fmt.Errorf("read discussion: %w", err)
		}
		if !id.Valid {
			continue // a novel without comments
		}
		p.ID, p.Depth, p.Chapter, p.index = id.UUID, int(depth.Int32), ChapterNumber(chapter.String), index.Int64
		p.WrittenAt, p.ReceivedAt, p.cut, p.Withdrawn = written.Time, received.Time, cut.Bool, withdrawn.Bool
		posts = append(posts, p)
		posts[len(posts)-1].show(r.Addresses.Post(n.Slug, p.ID), hidden.Bool, edited, stored, member, name, platform)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read discussion: %w", err)
	}
	if n.ID == uuid.Nil {
		return nil, ErrNotFound
	}
	if err := checkPublic(n.state); err != nil {
		return nil, err
	}
	page.UpTo = q.UpTo
	n.URL, page.Counts.TopLevel = r.Addresses.Novel(n.Slug), total-page.Counts.Replies
	q.arrange(page, posts)
	return page, nil
}

// arrange builds the top-level comments of a page, with their replies, from comments in any order, and sets the cursors
// of the neighbouring pages.
func (q *pageQuery) arrange(page *Page, posts []Post) {
	slices.SortFunc(posts, func(a, b Post) int {
		return cmp.Or(a.WrittenAt.Compare(b.WrittenAt), cmp.Compare(a.index, b.index))
	})
	var tops []Post
	below := map[uuid.UUID][]Post{}
	for _, p := range posts {
		if p.RootID.Valid {
			below[p.RootID.UUID] = append(below[p.RootID.UUID], p)
		} else {
			tops = append(tops, p)
		}
	}
	if q.descending {
		slices.Reverse(tops)
	}
	shown := fitting(tops, q.Limit)
	more := shown < len(tops)
	tops = tops[:shown]
	if q.backward {
		slices.Reverse(tops)
	}
	page.TopLevelComments = make([]TopLevelComment, 0, len(tops))
	for _, top := range tops {
		t := q.topLevelComment(top, below[top.ID])
		if top.Withdrawn && len(t.Replies) == 0 && t.RepliesCursor == "" && !t.Continued {
			continue // its replies are withdrawn, too
		}
		page.TopLevelComments = append(page.TopLevelComments, t)
	}
	if n := len(tops); n > 0 && !q.single {
		// Comments precede the page if a backward read found more than fit, or a forward read started after some.
		if q.backward && more || !q.backward && q.preceded {
			page.Previous = encodeCursor(backward, tops[0].WrittenAt, tops[0].index)
		}
		if q.backward || more {
			page.Next = encodeCursor(onward, tops[n-1].WrittenAt, tops[n-1].index)
		}
	}
}

// fitting returns the number of comments that fit on the page, up to limit.
func fitting(posts []Post, limit int) int {
	for i := range posts {
		if i == limit || posts[i].cut {
			return i
		}
	}
	return len(posts)
}

// topLevelComment returns a top-level comment with as many of the found replies as fit, and the cursor of further ones.
func (q *pageQuery) topLevelComment(top Post, found []Post) TopLevelComment {
	t := TopLevelComment{Post: top, Continued: top.ID == q.repliesOf && q.repliesFrom != lowest}
	if shown := fitting(found, q.replies); shown < len(found) {
		switch found = found[:shown]; {
		case shown > 0:
			t.RepliesCursor = encodeCursor(replies, found[shown-1].WrittenAt, found[shown-1].index)
		case t.Continued: // a page starts after the place in its cursor
			before := q.repliesFrom.beside(false)
			t.RepliesCursor = encodeCursor(replies, before.at.Time, before.index)
		default: // before the first
			t.RepliesCursor = encodeCursor(replies, time.Time{}, 0)
		}
	}
	t.Replies = preorder(found)
	return t
}

// preorder sorts comments so that each one follows its parent, and keeps the order of the replies to one comment. A
// comment whose parent is not in the list is treated as a reply to the top-level comment. It leaves out withdrawn
// comments without replies in the list.
func preorder(posts []Post) []Post {
	known := make(map[uuid.UUID]struct{}, len(posts))
	for i := range posts {
		known[posts[i].ID] = struct{}{}
	}
	children := map[uuid.UUID][]Post{}
	for _, p := range posts {
		parent := p.ParentID.UUID
		if _, ok := known[parent]; !ok {
			parent = uuid.Nil
		}
		children[parent] = append(children[parent], p)
	}
	ordered := make([]Post, 0, len(posts))
	var add func(siblings []Post)
	add = func(siblings []Post) { // recursion is limited by the number of replies on a page
		for _, p := range siblings {
			ordered = append(ordered, p)
			at := len(ordered)
			if add(children[p.ID]); p.Withdrawn && len(ordered) == at {
				ordered = ordered[:at-1]
			}
		}
	}
	add(children[uuid.Nil])
	return ordered
}

// place is the sort key of a comment: the time of writing and the place in the log. A page starts at a place,
// inclusive.
type place struct {
	at    pgtype.Timestamptz
	index int64
}

// The places before and after all comments.
var (
	lowest  = place{at: pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}}
	highest = place{pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}, math.MaxInt64}
)

// beside returns the place directly after p, or else directly before it.
func (p place) beside(after bool) place {
	if p.index--; after {
		p.index += 2
	}
	return p
}

// Kinds of cursor.
const (
	onward   = 'n' // top-level comments after one, in the requested order
	backward = 'p' // top-level comments before one
	replies  = 'r' // replies after one
)

func encodeCursor(kind byte, at time.Time, index int64) Text {
	key := binary.BigEndian.AppendUint64(nil, uint64(at.UnixMicro()))
	key = binary.BigEndian.AppendUint64(key, uint64(index)) //nolint:gosec // decodeCursor reverses the conversions
	return Text(web.EncodeCursor(string(kind), string(key)))
}

func decodeCursor(text string) (kind byte, p place, err error) {
	decoded, ok := web.DecodeCursor("", text)
	if !ok || len(decoded) != 1+8+8 {
		return 0, place{}, ErrCursor
	}
	key := []byte(decoded[1:])
	at := time.UnixMicro(int64(binary.BigEndian.Uint64(key))).UTC() //nolint:gosec // likewise
	index := int64(binary.BigEndian.Uint64(key[8:]))                //nolint:gosec // likewise
	// The database may refuse times of other years, and indexes without a neighbour.
	if at.Year() < -1 || at.Year() > 10_000 || index < 0 || index == math.MaxInt64 {
		return 0, place{}, ErrCursor
	}
	return decoded[0], place{pgtype.Timestamptz{Time: at, Valid: true}, index}, nil
}
