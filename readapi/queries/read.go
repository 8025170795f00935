package queries

import (
	"context"
	_ "embed"
	"regexp"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

//go:embed discussion.sql
var discussionSQL string

// statements are the variants of discussionSQL: [descending, with a chapter].
var statements = map[[2]bool]string{
	{false, false}: discussionStatement(ascending, allChapters),
	{true, false}:  discussionStatement(descending, allChapters),
	{false, true}:  discussionStatement(ascending, oneChapter),
	{true, true}:   discussionStatement(descending, oneChapter),
}

var (
	ascending   = strings.NewReplacer(":compare", ">=", ":opposite", "<=", ":direction", "ASC")
	descending  = strings.NewReplacer(":compare", "<=", ":opposite", ">=", ":direction", "DESC")
	oneChapter  = regexp.MustCompile(`[{}]`)
	allChapters = regexp.MustCompile(`\{[^}]*\}`)
)

func discussionStatement(order *strings.Replacer, remove *regexp.Regexp) string {
	_, statement, _ := strings.Cut(discussionSQL, "\nSELECT") // drops the comment above the statement
	return remove.ReplaceAllString(order.Replace("SELECT"+statement), "")
}

// Statement returns the statement that reads the first page of a discussion, and its arguments, for a benchmark.
func Statement(q DiscussionParams) (sql string, args []any) {
	s := scan{DiscussionParams: q, start: first, descending: q.Newest, replies: FirstReplies, repliesFrom: first}
	if q.Newest {
		s.start = last
	}
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
		s.window, s.repliesFrom.at, s.repliesFrom.depth, s.repliesFrom.id, PageBytes,
	}
	if s.alone {
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
		p                                        Post
		id                                       uuid.NullUUID
		depth                                    pgtype.Int4
		hidden, cut                              pgtype.Bool
		chapter, content, member, name, platform pgtype.Text // values instead of pointers, which would be allocated
		written, received                        pgtype.Timestamptz
	)
	comment := []any{
		nil, nil, nil, nil, nil, nil, nil,
		&id, &p.ParentID, &p.RootID, &depth, &chapter, &written, &received, &p.authorID, &hidden, &cut, &content, &member,
		&name, &platform,
	}
	whole := append([]any{&n.ID, &n.Slug, &n.Title, &n.state, &n.Language, &n.CoverURL, &page.ThreadID}, comment[7:]...)
	for target := whole; rows.Next(); target = comment { // the novel is the same in every row, so scan it once
		if err := rows.Scan(target...); err != nil {
			return nil, err //nolint:wrapcheck // the caller wraps it
		}
		if !id.Valid {
			continue // a novel without comments
		}
		p.ID, p.Depth, p.Chapter = id.UUID, int(depth.Int32), chapter.String
		p.WrittenAt, p.ReceivedAt, p.cut = written.Time, received.Time, cut.Bool
		posts = append(posts, p)
		posts[len(posts)-1].show(hidden.Bool, content, member, name, platform)
	}
	return posts, rows.Err() //nolint:wrapcheck // likewise
}
