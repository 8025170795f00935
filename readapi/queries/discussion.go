package queries

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
)

// FirstReplies is the number of replies of each top-level comment on a page.
const FirstReplies = 10

// NoChapter is the Chapter of comments on the novel as a whole.
const NoChapter = "none"

// DiscussionParams selects a part of a discussion. With only Slug and Limit it is the first page, oldest comments
// first.
type DiscussionParams struct {
	Slug    string
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
	Novel    Heading
	ThreadID uuid.NullUUID // null without comments
	Threads  []Thread
	Next     string // Cursor of the next page; "" on the last page
	Previous string // Cursor of the previous page; "" on the first page
}

// Heading is the novel of a page of a discussion.
type Heading struct {
	ID                              uuid.UUID
	Slug, Title, Language, CoverURL string

	state novel.State
}

// Thread is a top-level comment with some of its replies.
type Thread struct {
	Post
	// each reply after its parent; the replies to one comment in the order of writing
	Replies []Post
	Later   bool   // Replies do not start with the first one
	More    string // Cursor of further replies, for use with Under; "" for none
}

// Discussion reads a page. It fails with ErrNotFound, ErrGone or ErrCursor.
func (r *Reader) Discussion(ctx context.Context, q DiscussionParams) (*Page, error) {
	scan, err := r.start(ctx, q)
	if err != nil {
		return nil, err
	}
	page, err := r.read(ctx, scan)
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

// start returns the scan of a page.
func (r *Reader) start(ctx context.Context, q DiscussionParams) (scan, error) {
	s := scan{DiscussionParams: q, start: first, descending: q.Newest, replies: FirstReplies, repliesFrom: first}
	if q.Newest {
		s.start = last
	}
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
	case backward:
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
	s.start, s.replies, s.window, s.Chapter = found.start(), s.Limit, s.Under.UUID, ""
	s.Limit, s.alone = 1, true
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
	s.start, s.window = found.start(), found.root
	if s.more = found.older; s.Newest {
		s.more = found.newer
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
	window      uuid.UUID // the top-level comment whose replies are read
	repliesFrom place     // first reply to read
	alone       bool      // read only one top-level comment

	recent       []Post // comments that are not in the read model yet, each one a reply to the previous one
	recentThread uuid.UUID
}

// fail wraps an error of a statement.
func fail(err error) error { return fmt.Errorf("read discussion: %w", err) }
