package readapi_test

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"novelgate/events"
)

// naivePost is a comment as folding the log says.
type naivePost struct {
	id        uuid.UUID
	parent    *uuid.UUID
	root      uuid.UUID
	depth     int
	writtenAt time.Time
	content   string
	name      string
}

// naiveDiscussion folds the log up to a moment: the comments on a novel by identifier, its authors under their names of
// then.
func naiveDiscussion(log []events.Recorded, novel uuid.UUID, asOf time.Time) map[uuid.UUID]naivePost {
	posts := map[uuid.UUID]naivePost{}
	names := map[string]events.PostImported{}
	author := map[uuid.UUID]string{}
	for _, recorded := range log {
		e, ok := recorded.Event.(events.PostImported)
		if !ok || recorded.RecordedAt.After(asOf) {
			continue
		}
		if latest, known := names[e.Comment.ExternalUUID]; !known || !e.WrittenAt.Before(latest.WrittenAt) {
			names[e.Comment.ExternalUUID] = e
		}
		if e.NovelID != novel {
			continue
		}
		p := naivePost{
			id: recorded.StreamID, parent: e.ParentPostID, root: recorded.StreamID, writtenAt: e.WrittenAt,
			content: e.Comment.Content,
		}
		if p.parent != nil {
			p.root, p.depth = posts[*p.parent].root, posts[*p.parent].depth+1
		}
		posts[p.id], author[p.id] = p, e.Comment.ExternalUUID
	}
	for id, p := range posts {
		p.name = names[author[id]].Comment.Username
		posts[id] = p
	}
	return posts
}

// tops are the top-level comments in the order of their writing.
func tops(posts map[uuid.UUID]naivePost, newest bool) []uuid.UUID {
	var found []naivePost
	for _, p := range posts {
		if p.depth == 0 {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b naivePost) int {
		return cmp.Or(a.writtenAt.Compare(b.writtenAt), bytes.Compare(a.id[:], b.id[:]))
	})
	if newest {
		slices.Reverse(found)
	}
	ids := []uuid.UUID{}
	for _, p := range found {
		ids = append(ids, p.id)
	}
	return ids
}

// naiveNovel folds a novel's history up to a moment; false before it existed.
func naiveNovel(log []events.Recorded, novel uuid.UUID, asOf time.Time) (author, synopsis string, exists bool) {
	for _, recorded := range log {
		if recorded.StreamID != novel || recorded.RecordedAt.After(asOf) {
			continue
		}
		switch e := recorded.Event.(type) {
		case events.NovelCreated:
			author, synopsis, exists = e.Author, e.Synopsis, true
		case events.NovelUpdated:
			if e.Author != nil {
				author = *e.Author
			}
			if e.Synopsis != nil {
				synopsis = *e.Synopsis
			}
		default: // changes neither
		}
	}
	return author, synopsis, exists
}
