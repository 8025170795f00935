package queries

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
)

// FirstReplies is how many replies come with each top-level comment of a page.
const FirstReplies = 10

// NoChapter is the Chapter of comments on the novel as a whole.
const NoChapter = "none"

// DiscussionParams says which part of a discussion to read. The zero value, with a Slug and a Limit, is the beginning, oldest
// first.
type DiscussionParams struct {
	Slug    string
	Newest  bool          // first, rather than the oldest
	Chapter string        // top-level comments on a chapter, an exact decimal, or NoChapter; "" for all
	Cursor  string        // of another page of the same question
	Limit   int           // how many top-level comments; under one: how many replies
	Under   uuid.NullUUID // the replies of this top-level comment
	Post    uuid.NullUUID // the page that holds this comment, whatever its chapter
	AsOf    *time.Time    // what was there at that moment; nil for now
}

// Page is a part of a discussion.
type Page struct {
	Novel    Heading
	ThreadID uuid.NullUUID // null while nobody has commented
	Threads  []Thread
	Next     string // Cursor of the next page; "" when this is the last
	Previous string // likewise, of the one before
}

// Heading is what a page of a discussion says about the novel.
type Heading struct {
	ID                              uuid.UUID
	Slug, Title, Language, CoverURL string

	state novel.State
}

// Thread is a top-level comment with some of its replies.
type Thread struct {
	Post
	// each reply behind what it replies to, as deep as it is; the answers to one comment in the order of their writing
	Replies []Post
	Later   bool   // Replies do not begin at the first
	More    string // Cursor of the replies that follow, under this comment; "" when there are none
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

// start finds out where a page begins.
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

// under reads the replies of one comment.
func (r *Reader) under(ctx context.Context, s scan) (scan, error) {
	found, err := r.locate(ctx, s.DiscussionParams, s.Under.UUID)
	if errors.Is(err, errNotProjected) || err == nil && found.root != s.Under.UUID {
		return scan{}, ErrNotFound // replies have no pages of their own
	}
	if err != nil {
		return scan{}, err
	}
	s.start, s.replies, s.window, s.Chapter = found.start(), s.Limit, s.Under.UUID, ""
	s.Limit, s.alone = 1, true
	return s, nil
}

// around reads the page that begins with the comment's top-level comment.
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

// begin makes s start at the top-level comment of what was found.
func (s *scan) begin(found located) {
	s.start, s.window = found.start(), found.root
	if s.more = found.older; s.Newest {
		s.more = found.newer
	}
	if found.beyond {
		s.repliesFrom = placeOf(found.at, found.depth, found.id)
	}
}

// scan is a DiscussionParams with what it takes to read the answer with one statement.
type scan struct {
	DiscussionParams
	descending  bool
	backward    bool      // a page before another: read against the order requested
	more        bool      // there is something before start
	start       place     // of the first top-level comment
	replies     int       // how many of each
	window      uuid.UUID // the top-level comment whose replies are read
	repliesFrom place     // from here on
	alone       bool      // no other top-level comment is wanted

	recent       []Post // comments that the read model lacks, each the reply of the one before
	recentThread uuid.UUID
}

// fail wraps an error of a statement.
func fail(err error) error { return fmt.Errorf("read discussion: %w", err) }
