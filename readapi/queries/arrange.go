package queries

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"
)

// arrange makes threads of the comments that were read, in whatever order, and says which pages are beside this one.
func (s *scan) arrange(page *Page, posts []Post) error {
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
		if s.descending {
			return -order
		}
		return order
	})
	shown := fitting(tops, s.Limit)
	further := shown < len(tops)
	tops = tops[:shown]
	if s.backward {
		slices.Reverse(tops)
	}
	page.Threads = make([]Thread, len(tops))
	for i, top := range tops {
		page.Threads[i] = s.thread(top, below[top.ID])
	}
	if !s.alone {
		s.neighbours(page, further)
	}
	return s.addRecent(page)
}

// neighbours names the pages beside a page. further says whether there is more in the direction in which it was read.
func (s *scan) neighbours(page *Page, further bool) {
	n := len(page.Threads)
	if n == 0 {
		return
	}
	cursor := func(kind byte, t *Thread) string { return encodeCursor(kind, t.WrittenAt, 0, t.ID) }
	if s.backward && further || !s.backward && s.more {
		page.Previous = cursor(backward, &page.Threads[0])
	}
	if s.backward || further {
		page.Next = cursor(onward, &page.Threads[n-1])
	}
}

// thread puts the replies that were read below a top-level comment.
func (s *scan) thread(top Post, found []Post) Thread {
	t := Thread{Post: top, Later: top.ID == s.window && s.repliesFrom != first}
	slices.SortFunc(found, func(a, b Post) int {
		return cmp.Or(a.ReceivedAt.Compare(b.ReceivedAt), cmp.Compare(a.Depth, b.Depth), bytes.Compare(a.ID[:], b.ID[:]))
	})
	if shown := fitting(found, s.replies); shown < len(found) {
		found = found[:shown]
		t.More = s.repliesBehind(&t, found)
	}
	t.Replies = preorder(found)
	return t
}

// fitting returns how many comments there is room for, up to a limit.
func fitting(posts []Post, limit int) int {
	for i := range posts {
		if i == limit || posts[i].cut {
			return i
		}
	}
	return len(posts)
}

// repliesBehind is the cursor of the replies behind those that are shown of a thread.
func (s *scan) repliesBehind(t *Thread, shown []Post) string {
	if n := len(shown); n > 0 {
		return encodeCursor(replies, shown[n-1].ReceivedAt, shown[n-1].Depth, shown[n-1].ID)
	}
	if t.Later {
		before := s.repliesFrom.beside(false)
		return encodeCursor(replies, before.at.Time, int(before.depth), before.id)
	}
	return encodeCursor(replies, time.Time{}, 0, uuid.Nil) // before the first
}

// preorder puts each comment behind what it replies to, and the answers to one comment in the order of their writing. A
// comment whose parent is not among them stands like an answer to the top-level comment.
func preorder(posts []Post) []Post {
	if len(posts) < 2 {
		return posts
	}
	known := make(map[uuid.UUID]struct{}, len(posts))
	for i := range posts {
		known[posts[i].ID] = struct{}{}
	}
	var tops []Post
	answers := map[uuid.UUID][]Post{}
	for _, p := range posts {
		if _, ok := known[p.ParentID.UUID]; ok && p.ParentID.Valid {
			answers[p.ParentID.UUID] = append(answers[p.ParentID.UUID], p)
		} else {
			tops = append(tops, p)
		}
	}
	ordered := make([]Post, 0, len(posts))
	var add func(siblings []Post)
	add = func(siblings []Post) { // as deep as a page has replies at most
		slices.SortStableFunc(siblings, func(a, b Post) int { return a.WrittenAt.Compare(b.WrittenAt) })
		for _, p := range siblings {
			ordered = append(ordered, p)
			add(answers[p.ID])
		}
	}
	add(tops)
	return ordered
}
