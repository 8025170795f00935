package events

import (
	"maps"
	"slices"
)

// changes are the kinds of change that partners are told of, by the type of the event. They are stored, and part of the
// interface.
var changes = map[string]string{
	NovelApproved{}.Type():       "novel.approved",
	NovelRejected{}.Type():       "novel.rejected",
	NovelPublished{}.Type():      "novel.published",
	ThreadOpened{}.Type():        "thread.opened",
	PostHidden{}.Type():          "comment.hidden",
	PostRestored{}.Type():        "comment.restored",
	AuthorBlocked{}.Type():       "author.blocked",
	AuthorUnblocked{}.Type():     "author.unblocked",
	AuthorPostsHidden{}.Type():   "author.comments_hidden",
	AuthorPostsRestored{}.Type(): "author.comments_restored",
	AuthorErased{}.Type():        "author.erased",
	ImportCompleted{}.Type():     "import.completed",
	KeyExpiring{}.Type():         "key.expiring",
}

// ChangeOf returns the kind of change that an event is to the partner whom it concerns; "" for an event of which
// partners are not told.
func ChangeOf(e Event) string { return changes[e.Type()] }

// ChangeKinds returns the kinds of change, sorted.
func ChangeKinds() []string { return slices.Sorted(maps.Values(changes)) }
