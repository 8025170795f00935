package console

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"novelgate/commands/staff"
	"novelgate/internal/problem"
	"novelgate/internal/web"
)

func (c *Console) commentPages() []page {
	return []page{
		{path: "/comments", query: commentFilters, show: c.comments, act: c.decide},
		{path: "/comments/{postId}", show: c.comment, act: c.decide},
	}
}

var commentFilters = []string{
	"novel", "author", "integration", "state", "chapter", "from", "to", "sort", "cursor",
}

// commentsBody is what the list of comments shows.
type commentsBody struct {
	Path   string     // of the list with its filters
	Filter url.Values // as sent
	States []string
	Posts  []staff.ListedPost
	Next   string // path; "" on the last page
}

// pageSize is the number of items on a page of a list.
const pageSize = 50

// postFilter reads the filters of a list of comments.
func postFilter(q *web.Query) (staff.PostFilter, error) {
	f := staff.PostFilter{
		NovelID: q.ID("novel").UUID, AuthorID: q.ID("author").UUID, IntegrationID: q.ID("integration").UUID,
		State: q.OneOf("state", staff.OnlyVisible, staff.OnlyHidden, staff.OnlyReported, staff.OnlyEdited,
			staff.OnlyWithdrawn),
		Chapter: q.Text("chapter"), From: q.Time("from"), To: q.Time("to"),
		Sort: q.OneOf("sort", staff.Newest, staff.Waiting), Cursor: q.Text("cursor"), Limit: pageSize,
	}
	if f.Chapter != "" && !staff.IsChapter(f.Chapter) {
		q.Refuse("chapter", `must be a decimal number or "none"`)
	}
	return f, q.Err()
}

func (c *Console) comments(ctx context.Context, v *visit) (*view, error) {
	f, err := postFilter(v.query)
	if err != nil {
		return nil, err
	}
	found, err := v.staff.PostsPage(ctx, f)
	if err != nil {
		return nil, err
	}
	body := &commentsBody{
		Path: "/comments", Filter: v.URL.Query(), Posts: found.Items,
		States: []string{staff.OnlyReported, staff.OnlyHidden, staff.OnlyEdited, staff.OnlyVisible, staff.OnlyWithdrawn},
	}
	if found.Next != "" {
		body.Next = nextPage(v, "cursor", found.Next)
	}
	return &view{template: "comments", title: "Comments", body: body}, nil
}

// nextPage returns the path below /console of the next page of the list that is shown.
func nextPage(v *visit, parameter, value string) string {
	values := v.URL.Query()
	values.Set(parameter, value)
	return strings.TrimPrefix(v.URL.Path, "/console") + "?" + values.Encode()
}

func (c *Console) comment(ctx context.Context, v *visit) (*view, error) {
	id, err := web.PathID(v.Request, "postId")
	if err != nil {
		return nil, err
	}
	found, err := v.staff.PostContext(ctx, id)
	return &view{template: "comment", title: "Comment", body: found}, err
}

// decisions are what staff may decide about comments, with what takes it back.
var decisions = map[string]struct{ done, undo, label string }{
	staff.Hide:    {"Hidden", staff.Restore, "Restore"},
	staff.Restore: {"Restored", staff.Hide, "Hide"},
	staff.Dismiss: {"Reports dismissed", "", "See again"},
}

// decide executes a decision about the selected comments.
func (c *Console) decide(ctx context.Context, v *visit) (*outcome, error) {
	selected, err := ids(v, "post")
	if err != nil {
		return nil, err
	}
	decision := v.PostForm.Get("decision")
	d, known := decisions[decision]
	switch {
	case !known:
		return nil, problem.InvalidField("decision", "must be hide, restore or dismiss")
	case len(selected) == 0:
		return nil, problem.InvalidField("post", "select a comment first")
	case len(selected) > staff.MaxDecided:
		return nil, problem.InvalidField("post", fmt.Sprintf("at most %d comments at once", staff.MaxDecided))
	}
	decided, err := v.command("").DecidePosts(ctx, decision, selected, v.PostForm.Get("reason"))
	if err != nil {
		return nil, err
	}
	done := &outcome{notice: outcomes(d.done+": "+count(len(selected), "comment", "comments")+".", decided)}
	var changed []uuid.UUID
	for _, item := range decided.Items {
		if item.Problem == nil {
			changed = append(changed, item.PostID)
		}
	}
	switch {
	case len(changed) == 0:
	case d.undo != "":
		done.undo = &undo{
			Label: d.label + " " + count(len(changed), "comment", "comments"), Decision: d.undo, Posts: changed,
		}
	default: // reports cannot be opened again
		done.undo = &undo{Label: "Look at it again", To: "/comments/" + changed[0].String()}
	}
	return done, nil
}
