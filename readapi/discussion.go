package readapi

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

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
	Slug    string        // may be any text
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
	FirstPlace     int           // place of the first top-level comment in the requested order, from 1; 0: unknown
	LastPost       uuid.NullUUID // the comment of the discussion that was written last; null without one, or with AsOf
}

// TopLevelCount is the number of top-level comments.
func (p *Page) TopLevelCount() int { return p.Posts - p.Replies }

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

// Discussion reads a page. It fails with ErrNotFound, ErrGone or ErrCursor.
func (r *Reader) Discussion(ctx context.Context, params DiscussionParams) (*Page, error) {
	if !httpkit.IsText(params.Slug) {
		return nil, ErrNotFound
	}
	q, err := r.queryFor(ctx, params)
	if err != nil {
		return nil, err
	}
	page, err := r.readPage(ctx, q)
	if err != nil {
		return nil, err
	}
	if params.AsOf != nil {
		if err := r.completeAsOf(ctx, page, *params.AsOf); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// queryFor returns the query of a page.
func (r *Reader) queryFor(ctx context.Context, params DiscussionParams) (pageQuery, error) {
	q := newPageQuery(params)
	kind, at := byte(0), place{}
	if q.Cursor != "" {
		var err error
		if kind, at, err = decodeCursor(q.Cursor); err != nil || (kind == replies) != q.Under.Valid {
			return pageQuery{}, ErrCursor
		}
	}
	switch kind {
	case onward:
		q.preceded = true
		q.continueAfter(at)
	case backward:
		q.backward, q.descending = true, !q.descending
		q.continueAfter(at)
	case replies:
		q.repliesFrom = at.beside(true)
	case 0:
	default:
		return pageQuery{}, ErrCursor
	}
	if q.Under.Valid {
		return r.repliesTo(ctx, q)
	}
	if q.Post.Valid && kind == 0 {
		return r.startAtPost(ctx, q)
	}
	return q, nil
}

// repliesTo returns the query of the replies to the top-level comment q.Under.
func (r *Reader) repliesTo(ctx context.Context, q pageQuery) (pageQuery, error) {
	found, err := r.locate(ctx, q.DiscussionParams, q.Under.UUID)
	if errors.Is(err, errNotProjected) || err == nil && found.root != q.Under.UUID {
		return pageQuery{}, ErrNotFound // a reply has no page of replies
	}
	if err != nil {
		return pageQuery{}, err
	}
	q.start, q.replies, q.repliesOf, q.Chapter = found.start(), q.Limit, q.Under.UUID, ""
	q.Limit, q.single = 1, true
	return q, nil
}

// startAtPost returns the query of the page that starts with the top-level comment of q.Post.
func (r *Reader) startAtPost(ctx context.Context, q pageQuery) (pageQuery, error) {
	q.Chapter = ""
	found, err := r.locate(ctx, q.DiscussionParams, q.Post.UUID)
	if errors.Is(err, errNotProjected) {
		return r.startAtRecentPost(ctx, q)
	}
	if err != nil {
		return pageQuery{}, err
	}
	q.startAt(found)
	return q, nil
}

// startAt makes q start at the top-level comment of found.
func (q *pageQuery) startAt(found located) {
	q.start, q.repliesOf = found.start(), found.root
	q.number, q.fromNewest = found.number()
	if q.preceded = found.older > 0; q.Newest {
		q.preceded = found.newer > 0
	}
	if found.beyond {
		q.repliesFrom = placeOf(found.at, found.depth, found.id)
	}
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
	older, newer  int  // number of top-level comments older and newer than root, up to maxCounted
}

// maxCounted limits the cost of a link to a comment. A top-level comment with as many older and as many newer ones has
// no known number.
const maxCounted = 2000

// number returns the number of root; 0 when it is too far from both ends.
func (l located) number() (n int, fromNewest bool) {
	switch {
	case l.older < maxCounted:
		return l.older + 1, false
	case l.newer < maxCounted:
		return l.newer + 1, true
	default:
		return 0, false
	}
}

func (l located) start() place { return placeOf(l.rootWrittenAt, 0, l.root) }

// locate finds a comment in the discussion of a novel.
func (r *Reader) locate(ctx context.Context, q DiscussionParams, id uuid.UUID) (located, error) {
	var state novel.State
	found, err := queryOne(ctx, r.DB, func(row pgx.CollectableRow) (l located, err error) {
		err = row.Scan(&state, &l.root, &l.rootWrittenAt, &l.id, &l.at, &l.depth, &l.beyond, &l.older, &l.newer)
		return l, err
	}, locateSQL, q.Slug, id, until(q.AsOf), firstReplies, maxCounted)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return located{}, errNotProjected
	case err != nil:
		return located{}, fail(err)
	}
	return found, checkPublic(state)
}
