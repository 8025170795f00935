package console

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/problem"
	"novelgate/internal/title"
	"novelgate/internal/web"
)

func (c *Console) commentPages() []page {
	return []page{
		{path: "/comments", query: commentFilters, show: c.comments, act: c.decideListed},
		{path: "/comments/{postId}", show: c.comment, act: c.decideItem},
	}
}

var commentFilters = []string{
	"text", "novel", "author", "integration", "state", "chapter", "from", "to", "sort", "cursor",
}

// commentsBody is what the list of comments shows.
type commentsBody struct {
	Filter   url.Values // as sent
	States   []string
	Partners []staff.Integration
	Posts    []staff.ListedPost
	Next     string // path; "" on the last page
	Most     int    // comments of one decision
}

// pageSize is the number of items on a page of a list.
const pageSize = 50

// partnerChoices is the number of partners among which a form lets choose.
const partnerChoices = 500

// postFilter reads the filters of a list of comments. A novel is named by its title or its id.
func postFilter(ctx context.Context, v *visit) (staff.PostFilter, error) {
	q := v.query
	f := staff.ReadPostFilter(q)
	f.From, f.To, f.Limit = day(q, "from", 0), day(q, "to", 1), pageSize
	if named := q.Text("novel"); named != "" {
		id, ok := web.ParseID(named)
		if !ok {
			id = events.NovelID(title.Fold(named))
		}
		if _, err := v.staff.NovelByID(ctx, id); err != nil {
			q.Refuse("novel", "no novel has this title: look for it under Novels")
		}
		f.NovelID = id
	}
	return f, q.Err()
}

// day reads a parameter with a day, as browsers send it, and returns its beginning in UTC, or that of a later day.
func day(q *web.Query, name string, later int) *time.Time {
	text := q.Text(name)
	if text == "" {
		return nil
	}
	at, err := time.Parse(time.DateOnly, text)
	if err != nil || at.Year() < 1 {
		q.Refuse(name, "must be a day such as 2026-01-31")
		return nil
	}
	at = at.AddDate(0, 0, later)
	return &at
}

func (c *Console) comments(ctx context.Context, v *visit) (*view, error) {
	body := &commentsBody{
		Filter: v.URL.Query(), Most: staff.MaxDecided,
		States: []string{staff.OnlyReported, staff.OnlyHidden, staff.OnlyEdited, staff.OnlyVisible, staff.OnlyWithdrawn},
	}
	f, err := postFilter(ctx, v)
	if err != nil {
		return nil, err
	}
	if body.Partners, err = v.staff.ListIntegrations(ctx, uuid.Nil, partnerChoices); err != nil {
		return nil, err
	}
	found, err := v.staff.PostsPage(ctx, f)
	if err != nil {
		return nil, err
	}
	if body.Posts = found.Items; found.Next != "" {
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

// caseBody is a comment with all that it takes to decide.
type caseBody struct {
	staff.PostContext

	Reports     []report // since the latest decision, the first one first
	Waits       bool     // there are reports
	Taken       string   // who else has it
	Reason      string   // that the reports suggest for hiding
	Notes       []note
	AuthorNotes []note
}

// report is a report of one reason.
type report struct {
	By     string // the partner whose readers reported
	Reason string
	Count  int
	Detail string
	At     time.Time
}

func (c *Console) comment(ctx context.Context, v *visit) (*view, error) {
	id, err := web.PathID(v.Request, "postId")
	if err != nil {
		return nil, err
	}
	body, err := c.readCase(ctx, v, id)
	if err != nil {
		return nil, err
	}
	taken := []queued{{ID: id}}
	err = c.findTaken(ctx, v, taken)
	body.Taken = taken[0].Taken
	return &view{template: "comment", title: "Comment", body: body}, err
}

// readCase reads a comment with all that it takes to decide.
func (c *Console) readCase(ctx context.Context, v *visit, id uuid.UUID) (*caseBody, error) {
	found, err := v.staff.PostContext(ctx, id)
	if err != nil {
		return nil, err
	}
	body := &caseBody{PostContext: found, Waits: found.Post.Reports > 0, Reason: standardReasons[staff.Hide]}
	if body.Waits {
		body.Reports = openReports(found.Post.History)
	}
	if len(body.Reports) > 0 {
		most := slices.MaxFunc(body.Reports, func(a, b report) int { return a.Count - b.Count })
		body.Reason = "Reported as " + most.Reason + "."
	}
	if body.Notes, err = c.notes(ctx, id); err != nil {
		return nil, err
	}
	if found.Author != nil {
		body.AuthorNotes, err = c.notes(ctx, found.Author.ID)
	}
	return body, err
}

// openReports returns the reports of a comment since the latest decision about it.
func openReports(history []staff.HistoryEntry) (open []report) {
	for _, entry := range history {
		switch e := entry.Data.(type) {
		case events.PostReported:
			r := report{
				By: entry.ActorName, Reason: e.Reason, Count: e.Reports, At: entry.RecordedAt,
			}
			if e.Report != nil {
				r.Detail = e.Report.Detail
			}
			open = append(open, r)
		case events.PostHidden, events.PostRestored, events.PostReportsDismissed:
			open = nil
		}
	}
	return open
}

// excerpt is the beginning of a comment.
func excerpt(text string) string { return title.Begin(text, 140) }

// reports is the number of readers who reported a comment, by reason.
func reports(counts map[string]int) string {
	var parts []string
	for _, reason := range events.ReportReasons {
		if n := counts[reason]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", reason, n))
		}
	}
	return strings.Join(parts, ", ")
}

// decisions are what staff may decide about comments, with what takes it back.
var decisions = map[string]struct{ done, undo, label string }{
	staff.Hide:    {"Hidden", staff.Restore, "Restore"},
	staff.Restore: {"Restored", staff.Hide, "Hide"},
	staff.Dismiss: {"Reports dismissed", "", "Look again at"},
}

// decideListed executes a decision about the comments of a list that are selected, or about all that match its filters.
func (c *Console) decideListed(ctx context.Context, v *visit) (*outcome, error) {
	if v.PostForm.Get("all") == "" {
		return c.decide(ctx, v)
	}
	if v.PostForm.Get("confirmed") == "" {
		f, err := postFilter(ctx, v)
		if err != nil {
			return nil, err
		}
		f.Limit, f.Cursor = staff.MaxDecided, ""
		found, err := v.staff.ListPosts(ctx, f)
		if err != nil {
			return nil, err
		}
		v.PostForm.Del("post")
		for _, p := range found {
			v.PostForm.Add("post", p.PostID.String())
		}
	}
	decision := v.PostForm.Get("decision")
	n := len(v.PostForm["post"])
	question := fmt.Sprintf("%s match. Decide %q about all of them?", count(n, "comment", "comments"), decision)
	if n == staff.MaxDecided {
		question = fmt.Sprintf("At least %d comments match. Decide %q about the first %d of them?", n, decision, n)
	}
	if asked := confirm(v, question, "Yes, "+decision); asked != nil {
		return asked, nil
	}
	return c.decide(ctx, v)
}

// decide executes a decision about the selected comments.
func (c *Console) decide(ctx context.Context, v *visit) (*outcome, error) {
	posts, err := selected(v, "post", staff.MaxDecided)
	if err != nil {
		return nil, err
	}
	decision := v.PostForm.Get("decision")
	d, known := decisions[decision]
	if !known {
		return nil, problem.InvalidField("decision", "must be hide, restore or dismiss")
	}
	decided, err := decidePosts(ctx, v, decision, posts, v.PostForm.Get("reason"))
	if err != nil {
		return nil, err
	}
	c.awaitLists(ctx)
	done := &outcome{notice: outcomes(d.done+": "+count(len(posts), "comment", "comments")+".", decided)}
	var changed []uuid.UUID
	for _, item := range decided.Items {
		if item.Problem == nil {
			changed = append(changed, item.PostID)
		}
	}
	if len(changed) > 0 {
		done.undo = &undo{Label: d.label + " " + count(len(changed), "comment", "comments"), Decision: d.undo, Posts: changed}
		if d.undo == "" { // reports cannot be opened again
			done.undo.To, done.undo.Posts = "/comments/"+changed[0].String(), nil
		}
	}
	return done, nil
}
