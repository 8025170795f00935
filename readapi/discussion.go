package readapi

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/aggregates/novel"
	"novelgate/internal/httpkit"
)

// firstReplies is the number of replies of each top-level comment on a page.
const firstReplies = 10

// NoChapter is the Chapter of comments on the novel as a whole.
const NoChapter = "none"

// DiscussionParams selects a part of a discussion. With only Slug and Limit it is the first page, oldest comments
// first.
type DiscussionParams struct {
	Slug    string        // any text of an address
	Newest  bool          // newest comments first
	Chapter string        // top-level comments on a chapter, an exact decimal, or NoChapter; "" for all
	Cursor  string        // of another page with the same parameters
	Limit   int           // number of top-level comments; with Under: of replies
	Under   uuid.NullUUID // the replies of this top-level comment
	Post    uuid.NullUUID // the page with this comment, regardless of Chapter
	AsOf    *time.Time    // state at this time; nil: now
}

// Page is one page of a discussion.
type Page struct {
	Novel            Heading
	ThreadID         uuid.NullUUID // null without comments
	TopLevelComments []TopLevelComment
	Next             string // Cursor of the next page; "" on the last page
	Previous         string // Cursor of the previous page; "" on the first page

	// Counts of the discussion or of the chapter, hidden and erased comments included; 0 on pages of a past time. They
	// come from the projection activity, so they may be milliseconds behind the comments or ahead of them.
	Posts, Replies int
	Number         int           // place of the first top-level comment in the requested order, from 1; 0: unknown
	LastPost       uuid.NullUUID // the comment of the discussion that was written last; null when the counts are 0
}

// TopLevelCount is the number of top-level comments.
func (p *Page) TopLevelCount() int { return p.Posts - p.Replies }

// Heading is the novel in the heading of a page.
type Heading struct {
	ID                              uuid.UUID
	Slug, Title, Language, CoverURL string

	state novel.State
}

// TopLevelComment is a top-level comment with some of its replies.
type TopLevelComment struct {
	Post
	// each reply after its parent; the replies to one comment in the order of writing
	Replies []Post
	Later   bool   // Replies do not start with the first one
	More    string // Cursor of further replies, for use with Under; "" for none
}

// Discussion reads a page. It fails with ErrNotFound, ErrGone or ErrCursor.
func (r *Reader) Discussion(ctx context.Context, q DiscussionParams) (*Page, error) {
	if !httpkit.IsText(q.Slug) {
		return nil, ErrNotFound
	}
	s, err := r.start(ctx, q)
	if err != nil {
		return nil, err
	}
	page, err := r.read(ctx, s)
	if err != nil {
		return nil, err
	}
	if q.AsOf != nil {
		if err := r.asOf(ctx, page, *q.AsOf); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// newScan returns the scan of the first page.
func newScan(q DiscussionParams) scan {
	s := scan{DiscussionParams: q, start: lowest, descending: q.Newest, replies: firstReplies, repliesFrom: lowest}
	if q.Newest {
		s.start = highest
	}
	return s
}

// start returns the scan of a page.
func (r *Reader) start(ctx context.Context, q DiscussionParams) (scan, error) {
	s := newScan(q)
	kind, at := byte(0), place{}
	if q.Cursor != "" {
		var err error
		if kind, at, err = decodeCursor(q.Cursor); err != nil || (kind == replies) != q.Under.Valid {
			return scan{}, ErrCursor
		}
	}
	switch kind {
	case onward:
		s.start, s.more = at.beside(!s.descending), true
		s.after(int(at.depth))
	case backward:
		s.before(int(at.depth))
		s.descending = !s.descending
		s.start, s.backward = at.beside(!s.descending), true
	case replies:
		s.repliesFrom = at.beside(true)
	case 0:
	default:
		return scan{}, ErrCursor
	}
	if q.Under.Valid {
		return r.under(ctx, s)
	}
	if q.Post.Valid && kind == 0 {
		return r.around(ctx, s)
	}
	return s, nil
}

// under returns the scan of the replies to one comment.
func (r *Reader) under(ctx context.Context, s scan) (scan, error) {
	found, err := r.locate(ctx, s.DiscussionParams, s.Under.UUID)
	if errors.Is(err, errNotProjected) || err == nil && found.root != s.Under.UUID {
		return scan{}, ErrNotFound // a reply has no replies page
	}
	if err != nil {
		return scan{}, err
	}
	s.start, s.replies, s.repliesOf, s.Chapter = found.start(), s.Limit, s.Under.UUID, ""
	s.Limit, s.single = 1, true
	return s, nil
}

// around returns the scan of the page that starts with the comment's top-level comment.
func (r *Reader) around(ctx context.Context, s scan) (scan, error) {
	s.Chapter = ""
	found, err := r.locate(ctx, s.DiscussionParams, s.Post.UUID)
	if errors.Is(err, errNotProjected) {
		return r.aroundRecent(ctx, s)
	}
	if err != nil {
		return scan{}, err
	}
	s.begin(found)
	return s, nil
}

// begin makes s start at the top-level comment of found.
func (s *scan) begin(found located) {
	s.start, s.repliesOf = found.start(), found.root
	s.number, s.fromNewest = found.number()
	if s.more = found.older > 0; s.Newest {
		s.more = found.newer > 0
	}
	if found.beyond {
		s.repliesFrom = placeOf(found.at, found.depth, found.id)
	}
}

// scan is a DiscussionParams with the derived values of the statement.
type scan struct {
	DiscussionParams
	descending  bool
	backward    bool      // a previous page: read in reverse of the requested order
	more        bool      // there are comments before start
	start       place     // of the first top-level comment
	replies     int       // number of replies of each top-level comment
	repliesOf   uuid.UUID // the top-level comment whose replies start at repliesFrom
	repliesFrom place     // first reply to read of repliesOf
	single      bool      // read only one top-level comment
	numbering

	recent       []Post // comments that are not in the read model yet, each one a reply to the previous one
	recentThread uuid.UUID
}

// numbering is the ordinal of a top-level comment: 1 is the oldest. The cursor of a page carries this number, so that
// the next page needs no count. New comments do not change it, whichever order is requested; an import of old comments
// does.
type numbering struct {
	number     int  // of the first comment of the page, or of the last one of a page that is read backward; 0: unknown
	fromNewest bool // number counts from the newest comment
}

// after sets the number of the comment after number n in the requested order.
func (s *scan) after(n int) { s.step(n, !s.Newest) }

// before sets the number of the comment before number n in the requested order.
func (s *scan) before(n int) { s.step(n, s.Newest) }

func (s *scan) step(n int, up bool) {
	switch {
	case n < 1:
	case up:
		s.number = n + 1
	default:
		s.number = n - 1
	}
}

// numbers returns the numbers of the first and the last comment of a page; 0 when they are unknown.
func (s *scan) numbers(page *Page) (first, last int) {
	n, size := s.number, len(page.TopLevelComments)
	switch {
	case s.AsOf != nil || s.single || size == 0:
		return 0, 0
	case n > 0 && s.fromNewest:
		n = page.TopLevelCount() - n + 1
	case n == 0 && !s.more && !s.backward: // the first page
		if n = 1; s.Newest {
			n = page.TopLevelCount()
		}
	}
	if n < 1 {
		return 0, 0
	}
	distance := size - 1
	if s.Newest {
		distance = -distance
	}
	if first, last = n, n+distance; s.backward {
		first, last = n-distance, n
	}
	if min(first, last) < 1 {
		return 0, 0
	}
	return first, last
}

// fail wraps a database error.
func fail(err error) error { return fmt.Errorf("read discussion: %w", err) }

//go:embed locate.sql
var locateSQL string

// errNotProjected means that the read model does not have the comment in this discussion, yet or at all.
var errNotProjected = errors.New("the comment is not in the read model")

// located is the place of a comment in a discussion.
type located struct {
	root          uuid.UUID // its top-level comment
	rootWrittenAt time.Time
	id            uuid.UUID
	at            time.Time // of receipt
	depth         int
	beyond        bool // it comes after the first firstReplies replies of root
	older, newer  int  // top-level comments before and after root, counted up to countTo
}

// countTo limits the cost of a link to a comment. If both sides of it have more top-level comments, its number is
// unknown.
const countTo = 2000

// number returns the number of root; 0 when it is too far from both ends.
func (l located) number() (n int, fromNewest bool) {
	switch {
	case l.older < countTo:
		return l.older + 1, false
	case l.newer < countTo:
		return l.newer + 1, true
	default:
		return 0, false
	}
}

func (l located) start() place { return placeOf(l.rootWrittenAt, 0, l.root) }

// locate finds a comment in the discussion of a novel.
func (r *Reader) locate(ctx context.Context, q DiscussionParams, id uuid.UUID) (located, error) {
	var state novel.State
	found, err := one(ctx, r.DB, func(row pgx.CollectableRow) (l located, err error) {
		err = row.Scan(&state, &l.root, &l.rootWrittenAt, &l.id, &l.at, &l.depth, &l.beyond, &l.older, &l.newer)
		return l, err
	}, locateSQL, q.Slug, id, until(q.AsOf), firstReplies, countTo)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return located{}, errNotProjected
	case err != nil:
		return located{}, fail(err)
	}
	return found, visible(state)
}

// until returns the end of the time range of a page, inclusive.
func until(asOf *time.Time) pgtype.Timestamptz {
	if asOf == nil {
		return highest.at
	}
	return pgtype.Timestamptz{Time: *asOf, Valid: true}
}

//go:embed discussion.sql
var discussionSQL string

// statements are the variants of discussionSQL: [descending, of one chapter].
var statements = discussionStatements()

// discussionStatements completes discussionSQL as the comment in the file says.
func discussionStatements() map[[2]bool]string {
	_, template, _ := strings.Cut(discussionSQL, "\nSELECT") // drops the comment above the statement
	template = "SELECT" + template
	all := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(strings.ReplaceAll(template, ":counts", "w"), "")
	chapter := strings.NewReplacer("{", "", "}", "", ":counts", "v").Replace(template)
	ascending := strings.NewReplacer(":compare", ">=", ":opposite", "<=", ":direction", "ASC")
	descending := strings.NewReplacer(":compare", "<=", ":opposite", ">=", ":direction", "DESC")
	return map[[2]bool]string{
		{false, false}: ascending.Replace(all), {true, false}: descending.Replace(all),
		{false, true}: ascending.Replace(chapter), {true, true}: descending.Replace(chapter),
	}
}

// Statement returns the statement that reads the first page of a discussion, and its arguments, for a benchmark.
func Statement(q DiscussionParams) (sql string, args []any) {
	s := newScan(q)
	return s.statement()
}

// PageBytes limits the text on a page of a discussion. A top-level comment with its first replies always fits, because
// a request of a partner has at most 32 KB.
const PageBytes = 512 << 10

// statement reads one more top-level comment, and one more reply of each, than the page shows, to detect whether there
// are more.
func (s *scan) statement() (sql string, args []any) {
	args = []any{
		s.Slug, s.start.at, s.start.id, until(s.AsOf), s.Limit + 1, s.replies + 1,
		s.repliesOf, s.repliesFrom.at, s.repliesFrom.depth, s.repliesFrom.id, PageBytes,
	}
	if s.single {
		args[4] = 1
	}
	switch s.Chapter {
	case "":
	case NoChapter:
		args = append(args, "-1")
	default:
		args = append(args, s.Chapter)
	}
	return statements[[2]bool{s.descending, s.Chapter != ""}], args
}

// read reads and arranges a page.
func (r *Reader) read(ctx context.Context, s scan) (*Page, error) {
	sql, args := s.statement()
	rows, err := r.DB.Query(ctx, sql, args...)
	if err != nil {
		return nil, fail(err)
	}
	page := new(Page)
	posts, err := collect(rows, page, make([]Post, 0, s.Limit*2))
	if err != nil {
		return nil, fail(err)
	}
	if page.Novel.ID == uuid.Nil {
		return nil, ErrNotFound
	}
	if err := visible(page.Novel.state); err != nil {
		return nil, err
	}
	if s.AsOf != nil {
		page.Posts, page.Replies, page.LastPost = 0, 0, uuid.NullUUID{}
	}
	if err := s.arrange(page, posts); err != nil {
		return nil, err
	}
	return page, nil
}

// collect reads the novel into page and appends the comments to posts.
func collect(rows pgx.Rows, page *Page, posts []Post) ([]Post, error) {
	defer rows.Close()
	n := &page.Novel
	var (
		p                               Post
		id                              uuid.NullUUID
		depth                           pgtype.Int4
		hidden, cut                     pgtype.Bool
		chapter, member, name, platform pgtype.Text // values instead of pointers, which would be allocated
		stored                          personal
		written, received               pgtype.Timestamptz
	)
	comment := []any{
		nil, nil, nil, nil, nil, nil, nil, nil, nil, nil,
		&id, &p.ParentID, &p.RootID, &depth, &chapter, &written, &received, &p.authorID, &hidden, &cut, &stored, &member,
		&name, &platform,
	}
	novel := []any{
		&n.ID, &n.Slug, &n.Title, &n.state, &n.Language, &n.CoverURL, &page.ThreadID, &page.Posts, &page.Replies,
		&page.LastPost,
	}
	whole := slices.Concat(novel, comment[len(novel):])
	for target := whole; rows.Next(); target = comment { // the novel is the same in every row, so scan it once
		if err := rows.Scan(target...); err != nil {
			return nil, err
		}
		if !id.Valid {
			continue // a novel without comments
		}
		p.ID, p.Depth, p.Chapter = id.UUID, int(depth.Int32), chapter.String
		p.WrittenAt, p.ReceivedAt, p.cut = written.Time, received.Time, cut.Bool
		posts = append(posts, p)
		posts[len(posts)-1].show(hidden.Bool, stored, member, name, platform)
	}
	return posts, rows.Err()
}
