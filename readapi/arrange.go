package readapi

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"
)

// arrange builds the top-level comments of a page, with their replies, from comments in any order. It sets the cursors
// of the neighbouring pages, and adds the comments that are not in the read model yet.
func (q *pageQuery) arrange(page *Page, posts []Post) error {
	var tops []Post
	below := map[uuid.UUID][]Post{}
	for _, p := range posts {
		if p.RootID.Valid {
			below[p.RootID.UUID] = append(below[p.RootID.UUID], p)
		} else {
			tops = append(tops, p)
		}
	}
	slices.SortFunc(tops, func(a, b Post) int {
		order := cmp.Or(a.WrittenAt.Compare(b.WrittenAt), bytes.Compare(a.ID[:], b.ID[:]))
		if q.descending {
			return -order
		}
		return order
	})
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
	if !q.single {
		q.setCursors(page, more)
	}
	return q.addRecent(page)
}

// setCursors sets the cursors of the neighbouring pages, and the place of the page's first comment. more means that
// there are more comments in the direction of reading.
func (q *pageQuery) setCursors(page *Page, more bool) {
	n := len(page.TopLevelComments)
	if n == 0 {
		return
	}
	first, last := q.numbers(page)
	// A number counts from the oldest comment, page.FirstPlace from the beginning of the requested order.
	if page.FirstPlace = first; q.Newest && first > 0 {
		page.FirstPlace = page.TopLevelCount() - first + 1
	}
	page.FirstPlace = max(page.FirstPlace, 0)
	cursor := func(kind byte, t *TopLevelComment, number int) string {
		return encodeCursor(kind, t.WrittenAt, number, t.ID)
	}
	// Comments precede the page if a backward read found more than fit, or a forward read started after some.
	if q.backward && more || !q.backward && q.preceded {
		page.Previous = cursor(backward, &page.TopLevelComments[0], first)
	}
	if q.backward || more {
		page.Next = cursor(onward, &page.TopLevelComments[n-1], last)
	}
}

// topLevelComment returns a top-level comment with as many of the found replies as fit, and the cursor of further ones.
func (q *pageQuery) topLevelComment(top Post, found []Post) TopLevelComment {
	t := TopLevelComment{Post: top, Continued: top.ID == q.repliesOf && q.repliesFrom != lowest}
	slices.SortFunc(found, func(a, b Post) int {
		return cmp.Or(a.ReceivedAt.Compare(b.ReceivedAt), cmp.Compare(a.Depth, b.Depth), bytes.Compare(a.ID[:], b.ID[:]))
	})
	if shown := fitting(found, q.replies); shown < len(found) {
		found = found[:shown]
		t.RepliesCursor = q.repliesCursor(&t, found)
	}
	t.Replies = preorder(found)
	return t
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

// repliesCursor returns the cursor of the replies to a top-level comment that follow the shown ones.
func (q *pageQuery) repliesCursor(t *TopLevelComment, shown []Post) string {
	if n := len(shown); n > 0 {
		return encodeCursor(replies, shown[n-1].ReceivedAt, shown[n-1].Depth, shown[n-1].ID)
	}
	if t.Continued {
		before := q.repliesFrom.beside(false) // because a page starts after the place in its cursor
		return encodeCursor(replies, before.at.Time, int(before.depth), before.id)
	}
	return encodeCursor(replies, time.Time{}, 0, uuid.Nil) // before the first
}

// preorder sorts comments so that each one follows its parent, with the replies to one comment in the order of writing.
// A comment whose parent is not in the list is treated as a reply to the top-level comment.
func preorder(posts []Post) []Post {
	if len(posts) < 2 {
		return posts
	}
	known := make(map[uuid.UUID]struct{}, len(posts))
	for i := range posts {
		known[posts[i].ID] = struct{}{}
	}
	var tops []Post
	children := map[uuid.UUID][]Post{}
	for _, p := range posts {
		if _, ok := known[p.ParentID.UUID]; ok && p.ParentID.Valid {
			children[p.ParentID.UUID] = append(children[p.ParentID.UUID], p)
		} else {
			tops = append(tops, p)
		}
	}
	ordered := make([]Post, 0, len(posts))
	var add func(siblings []Post)
	add = func(siblings []Post) { // recursion is limited by the number of replies on a page
		slices.SortStableFunc(siblings, func(a, b Post) int { return a.WrittenAt.Compare(b.WrittenAt) })
		for _, p := range siblings {
			ordered = append(ordered, p)
			add(children[p.ID])
		}
	}
	add(tops)
	return ordered
}
