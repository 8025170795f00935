package readapi

import (
	"context"
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

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

	// number is the number of the first comment of the page, or of the last one of a page that is read backward; 0:
	// unknown. The oldest top-level comment has number 1, in either order. The cursor of a page carries a number, so that
	// the next page needs no count. New comments do not change the numbers; an import of old comments does.
	number     int
	fromNewest bool // number counts from the newest comment

	recent       []Post // comments that are not in the read model yet, each one a reply to the previous one
	recentThread uuid.UUID
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

// continueAfter makes q start after a top-level comment, in the direction of reading. at is the place in a cursor: its
// depth is the number of the comment.
func (q *pageQuery) continueAfter(at place) {
	q.start = at.beside(!q.descending)
	switch n := int(at.depth); {
	case n < 1: // unknown
	case q.descending:
		q.number = n - 1
	default:
		q.number = n + 1
	}
}

// numbers returns the numbers of the first and the last comment of a page; 0 when they are unknown.
func (q *pageQuery) numbers(page *Page) (first, last int) {
	n, size := q.number, len(page.TopLevelComments)
	switch {
	case q.AsOf != nil || q.single || size == 0:
		return 0, 0
	case n > 0 && q.fromNewest:
		n = page.TopLevelCount() - n + 1
	case n == 0 && !q.preceded && !q.backward: // the first page
		if n = 1; q.Newest {
			n = page.TopLevelCount()
		}
	}
	if n < 1 {
		return 0, 0
	}
	distance := size - 1 // from the number of the first comment to that of the last one
	if q.Newest {
		distance = -distance
	}
	if first, last = n, n+distance; q.backward {
		first, last = n-distance, n
	}
	if min(first, last) < 1 {
		return 0, 0
	}
	return first, last
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

// statements are the variants of discussionSQL, by [descending, of one chapter].
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

// Statement returns the statement that reads the first page of a discussion, and its arguments, for tests and a
// benchmark.
func Statement(params DiscussionParams) (sql string, args []any) {
	q := newPageQuery(params)
	return q.statement()
}

// PageBytes limits the text on a page of a discussion. A top-level comment with its first replies always fits, because
// a request of a partner has at most 32 KB.
const PageBytes = 512 << 10

// statement returns the statement that reads a page, and its arguments. It reads one more top-level comment, and one
// more reply of each, than the page shows, to detect whether there are more.
func (q *pageQuery) statement() (sql string, args []any) {
	args = []any{
		q.Slug, q.start.at, q.start.id, until(q.AsOf), q.Limit + 1, q.replies + 1,
		q.repliesOf, q.repliesFrom.at, q.repliesFrom.depth, q.repliesFrom.id, PageBytes,
	}
	if q.single {
		args[4] = 1
	}
	switch q.Chapter {
	case "":
	case NoChapter:
		args = append(args, "-1")
	default:
		args = append(args, q.Chapter)
	}
	return statements[[2]bool{q.descending, q.Chapter != ""}], args
}

// readPage reads and arranges a page.
func (r *Reader) readPage(ctx context.Context, q pageQuery) (*Page, error) {
	sql, args := q.statement()
	rows, err := r.DB.Query(ctx, sql, args...)
	if err != nil {
		return nil, fail(err)
	}
	page := new(Page)
	posts, err := collect(rows, page, make([]Post, 0, q.Limit*2))
	if err != nil {
		return nil, fail(err)
	}
	if page.Novel.ID == uuid.Nil {
		return nil, ErrNotFound
	}
	if err := checkPublic(page.Novel.state); err != nil {
		return nil, err
	}
	if q.AsOf != nil {
		page.Posts, page.Replies, page.LastPost = 0, 0, uuid.NullUUID{}
	}
	if err := q.arrange(page, posts); err != nil {
		return nil, err
	}
	return page, nil
}

// collect reads the novel and the counts into page, and appends the comments to posts.
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
	comment := []any{ // nil skips a column of the novel
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
