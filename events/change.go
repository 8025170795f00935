package events

import (
	"maps"
	"slices"
)

// changes maps the event types of which partners are notified to kinds of change. Kinds are stored, and are part of the
// interface.
var changes = map[string]string{
	NovelApproved{}.Type():        "novel.approved",
	NovelRejected{}.Type():        "novel.rejected",
	NovelPublished{}.Type():       "novel.published",
	ThreadOpened{}.Type():         "thread.opened",
	PostHidden{}.Type():           "comment.hidden",
	PostRestored{}.Type():         "comment.restored",
	PostReportsDismissed{}.Type(): "report.dismissed",
	AuthorBlocked{}.Type():        "author.blocked",
	AuthorUnblocked{}.Type():      "author.unblocked",
	AuthorPostsHidden{}.Type():    "author.comments_hidden",
	AuthorPostsRestored{}.Type():  "author.comments_restored",
	AuthorErased{}.Type():         "author.erased",
}

// ChangeOf returns the kind of change of an event; "" for an event of which partners are not notified.
func ChangeOf(e Event) string { return changes[e.Type()] }

// ChangeKinds returns the kinds of change, sorted.
func ChangeKinds() []string { return slices.Sorted(maps.Values(changes)) }
