package readapi

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/internal/web"
)

// readPage reads and arranges a page.
func (r *Reader) readPage(ctx context.Context, q pageQuery) (*Page, error) {
	page := new(Page)
	n := &page.Novel
	var (
		p                               Post
		id                              uuid.NullUUID
		depth                           pgtype.Int4
		index                           pgtype.Int8
		hidden, cut                     pgtype.Bool
		chapter, member, name, platform pgtype.Text // values instead of pointers, which would be allocated
		stored                          personal
		written, received               pgtype.Timestamptz
	)
	comment := []any{ // nil skips a column of the novel
		nil, nil, nil, nil, nil, nil, nil, nil, nil, nil,
		&id, &p.ParentID, &p.RootID, &depth, &chapter, &written, &received, &index, &hidden, &cut, &stored,
		&member, &name, &platform,
	}
	novel := []any{
		&n.ID, &n.Slug, &n.Title, &n.state, &n.Language, &n.CoverURL, &page.ThreadID, &page.Posts, &page.Replies,
		&page.LastPost,
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
		p.ID, p.Depth, p.Chapter, p.index = id.UUID, int(depth.Int32), chapter.String, index.Int64
		p.WrittenAt, p.ReceivedAt, p.cut = written.Time, received.Time, cut.Bool
		posts = append(posts, p)
		posts[len(posts)-1].show(hidden.Bool, stored, member, name, platform)
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
	page.TopLevelComments = make([]TopLevelComment, len(tops))
	for i, top := range tops {
		page.TopLevelComments[i] = q.topLevelComment(top, below[top.ID])
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
// comment whose parent is not in the list is treated as a reply to the top-level comment.
func preorder(posts []Post) []Post {
	if len(posts) < 2 {
		return posts
	}
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
			add(children[p.ID])
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

func encodeCursor(kind byte, at time.Time, index int64) string {
	key := binary.BigEndian.AppendUint64(nil, uint64(at.UnixMicro()))
	key = binary.BigEndian.AppendUint64(key, uint64(index)) //nolint:gosec // decodeCursor reverses the conversions
	return web.EncodeCursor(string(kind), string(key))
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
