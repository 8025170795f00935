package readapi

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

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
	Cursor  string        // of another page with the same parameters
	Limit   int           // number of top-level comments; with Under: of replies
	Under   uuid.NullUUID // the replies of this top-level comment
	Post    uuid.NullUUID // the page with this comment, regardless of Chapter
}

// Page is one page of a discussion.
type Page struct {
	Novel            Heading
	ThreadID         uuid.NullUUID // null without comments
	TopLevelComments []TopLevelComment
	Next             string // Cursor of the next page; "" on the last page
	Previous         string // Cursor of the previous page; "" on the first page

	// Counts of the discussion or of the chapter, hidden and erased comments included. They come from the projection
	// activity, so they may be milliseconds behind the comments or ahead of them.
	Posts, Replies int
	LastPost       uuid.NullUUID // the comment of the discussion that was written last; null without one
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

// Heading is what headings and lists show of a novel.
type Heading struct {
	ID                              uuid.UUID
	Slug, Title, Language, CoverURL string

	state novel.State
}

// TopLevelComment is a top-level comment with some of its replies.
type TopLevelComment struct {
	Post
	// Replies has each reply after its parent, and the replies to one comment in the order of writing.
	Replies       []Post
	Continued     bool   // Replies do not start with the first one
	RepliesCursor string // Cursor of further replies, for use with Under; "" for none
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
		found, err := r.locate(ctx, q.Slug, id.UUID)
		if err != nil {
			return nil, err
		}
		if found.root != id.UUID {
			return nil, ErrNotFound // a reply has no page of replies
		}
		q.start, q.replies, q.repliesOf, q.Chapter, q.Limit, q.single = found.start, q.Limit, id.UUID, "", 1, true
	} else if q.Post.Valid && kind == 0 {
		found, err := r.locate(ctx, q.Slug, q.Post.UUID)
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

// locate finds a comment in the discussion of a novel. It fails with ErrNotFound, ErrGone or ErrNotYet.
func (r *Reader) locate(ctx context.Context, slug string, id uuid.UUID) (located, error) {
	var state novel.State
	found, err := queryOne(ctx, r.DB, func(row pgx.CollectableRow) (l located, err error) {
		err = row.Scan(&state, &l.root, &l.start.at, &l.start.index, &l.at.at, &l.at.index, &l.beyond, &l.older, &l.newer)
		return l, err
	}, locateSQL, slug, id, firstReplies)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		// The novel decides first: everything below the address of a rejected one is gone.
		n, err := r.Novel(ctx, slug)
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
		q.Slug, q.start.at, q.start.index, q.Limit + 1, q.replies + 1, q.repliesOf, q.repliesFrom.at, q.repliesFrom.index,
		PageBytes,
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
	return statements[[2]bool{q.descending, q.Chapter != ""}], args
}
