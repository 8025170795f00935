package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5"

	"novelgate/commands/staff"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/problem"
	"novelgate/projections"
)

func (c *Console) queuePages() []page {
	lead := func(context.Context, *visit) (*view, error) { return nil, redirect("/queue/reported") }
	return []page{
		{path: "", show: lead},
		{path: "/queue", show: lead},
		{path: "/queue/{queue:reported|novels}", query: []string{"item", "free"}, show: c.queue, act: c.decideItem},
		{path: "/counts", show: c.countsAsJSON},
		{path: "/undo", show: lead, act: c.takeBack},
		{path: "/notes", show: lead, act: c.note},
	}
}

// countsAsJSON is for the script, which keeps the counts of an open page up to date.
func (c *Console) countsAsJSON(ctx context.Context, v *visit) (*view, error) {
	n, err := c.counts(ctx)
	if err != nil {
		return nil, err
	}
	v.writer.Header().Set("Content-Type", "application/json")
	return nil, json.MarshalWrite(v.writer, n)
}

// queued is an item of a queue.
type queued struct {
	ID     uuid.UUID
	Title  string // of the novel
	About  string // the beginning of the comment, or the partner
	Since  time.Time
	Reason string // the reports
	Taken  string // who has it; "" for nobody else
}

// queueBody is what a queue shows: one item as a whole, and the items beside it.
type queueBody struct {
	Name           string // reported or novels
	Item           *queued
	Case           *caseBody    // of a comment
	Novel          *staff.Novel // with its story
	Items          []queued
	Next, Previous string // paths
}

// ahead is the number of items of a queue that a page looks at.
const ahead = 50

// queue shows an item of a queue: the one that is asked for, or the one that waits longest and nobody else has. With
// the parameter free it is the first one that nobody else has, from the one that is asked for on.
func (c *Console) queue(ctx context.Context, v *visit) (*view, error) {
	wanted := v.query.ID("item")
	if err := v.query.Err(); err != nil {
		return nil, err
	}
	name := mux.Vars(v.Request)["queue"]
	body := &queueBody{Name: name}
	var err error
	if body.Items, err = c.items(ctx, v, name); err != nil {
		return nil, err
	}
	if len(body.Items) > 0 {
		at := slices.IndexFunc(body.Items, func(i queued) bool { return wanted.Valid && i.ID == wanted.UUID })
		if at >= 0 && v.query.Text("free") == "" {
			_, err = c.take(ctx, v, wanted.UUID)
		} else {
			at, err = c.takeFree(ctx, v, body.Items, max(at, 0))
		}
		if err != nil {
			return nil, err
		}
		body.Item = &body.Items[at]
		path := func(i int, more string) string {
			if i < 0 || i >= len(body.Items) {
				return ""
			}
			return "/queue/" + name + "?item=" + body.Items[i].ID.String() + more
		}
		body.Next, body.Previous = path(at+1, "&free=yes"), path(at-1, "")
		if err := c.describe(ctx, v, body); err != nil {
			return nil, err
		}
	}
	return &view{template: "queue", title: map[string]string{
		"reported": "Reported comments", "novels": "Waiting novels",
	}[name], body: body}, nil
}

// describe reads the item that the page shows as a whole.
func (c *Console) describe(ctx context.Context, v *visit, body *queueBody) (err error) {
	if body.Name == "reported" {
		if body.Case, err = c.readCase(ctx, v, body.Item.ID); err == nil {
			body.Case.Taken = body.Item.Taken
		}
		return err
	}
	found, err := v.staff.NovelWithHistory(ctx, body.Item.ID)
	body.Novel = &found
	return err
}

// items returns the items of a queue, the longest waiting first, without those that the session has just decided about:
// the list may not have followed yet.
func (c *Console) items(ctx context.Context, v *visit, name string) (list []queued, err error) {
	if name == "reported" {
		list, err = c.reported(ctx, v)
	} else {
		list, err = database.Collect(ctx, c.Pool, "waiting novels", scanWaiting, waitingSQL, ahead)
	}
	if err != nil {
		return nil, err
	}
	if u := v.session.undo; u != nil {
		list = slices.DeleteFunc(list, func(i queued) bool { return slices.Contains(u.Posts, i.ID) })
	}
	return list, c.findTaken(ctx, v, list)
}

// reported returns the comments with reports.
func (*Console) reported(ctx context.Context, v *visit) (list []queued, err error) {
	found, err := v.staff.PostsPage(ctx, staff.PostFilter{Sort: staff.Waiting, Limit: ahead})
	if err != nil {
		return nil, err
	}
	for i := range found.Items {
		p := &found.Items[i]
		item := queued{ID: p.PostID, Title: p.Novel.Title, About: "(erased)", Reason: reports(p.Reports)}
		if p.FirstReportedAt != nil {
			item.Since = *p.FirstReportedAt
		}
		if p.Content != nil {
			item.About = excerpt(*p.Content)
		}
		list = append(list, item)
	}
	return list, nil
}

// waitingSQL selects novels that wait for staff, the longest waiting first. A title may have been imported more than
// once: it waits since the last time.
const waitingSQL = `SELECT t.novel_id, t.title, coalesce(i.name, ''), e.recorded_at
FROM title_lookup t LEFT JOIN integrations i ON i.integration_id = t.owner_id
CROSS JOIN LATERAL (
    SELECT c.recorded_at FROM events c WHERE c.stream_id = t.novel_id AND c.event_type = 'novel.created.v1'
    ORDER BY c.stream_version DESC LIMIT 1
) AS e
WHERE t.state = 'pending' ORDER BY e.recorded_at, t.novel_id LIMIT $1`

func scanWaiting(row pgx.CollectableRow) (i queued, err error) {
	if err = row.Scan(&i.ID, &i.Title, &i.About, &i.Since); err != nil {
		err = fmt.Errorf("scan a waiting novel: %w", err)
	}
	return i, err
}

// claimTime is how long an item that somebody looks at is not given to others.
const claimTime = 5 * time.Minute

// takeFree takes the first of the items from start on that nobody else has, or else the first one before it, and
// returns its index; start when others have all.
func (c *Console) takeFree(ctx context.Context, v *visit, items []queued, start int) (int, error) {
	for n := range items {
		i := (start + n) % len(items)
		if items[i].Taken != "" {
			continue
		}
		var err error
		if items[i].Taken, err = c.take(ctx, v, items[i].ID); err != nil || items[i].Taken == "" {
			return i, err
		}
	}
	return start, nil
}

// take notes that a member of staff looks at an item, and at no other, unless somebody else does already, whose name it
// returns.
func (c *Console) take(ctx context.Context, v *visit, item uuid.UUID) (other string, err error) {
	if !v.isStaff() {
		return "", nil
	}
	batch := &pgx.Batch{}
	batch.Queue(`DELETE FROM console_claims WHERE person_id = $1 AND item_id <> $2 OR ends_at < $3`, v.user.ID, item, v.at)
	batch.Queue(`INSERT INTO console_claims AS c (item_id, person_id, name, ends_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (item_id) DO UPDATE
SET ends_at = CASE c.person_id WHEN excluded.person_id THEN excluded.ends_at ELSE c.ends_at END
RETURNING CASE c.person_id WHEN $2 THEN '' ELSE c.name END`, item, v.user.ID, v.user.Name, v.at.Add(claimTime)).
		QueryRow(func(row pgx.Row) error { return row.Scan(&other) })
	if err := c.Pool.SendBatch(ctx, batch).Close(); err != nil {
		return "", fmt.Errorf("take an item: %w", err)
	}
	return other, nil
}

// findTaken sets who else has the items.
func (c *Console) findTaken(ctx context.Context, v *visit, list []queued) error {
	all := make([]uuid.UUID, len(list))
	for i := range list {
		all[i] = list[i].ID
	}
	rows, _ := c.Pool.Query(ctx, `SELECT item_id, name FROM console_claims
WHERE item_id = ANY ($1) AND person_id <> $2 AND ends_at > $3`, all, v.user.ID, v.at) // ForEachRow has the error
	var id uuid.UUID
	var name string
	_, err := pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		list[slices.Index(all, id)].Taken = name
		return nil
	})
	if err != nil {
		return fmt.Errorf("find who has an item: %w", err)
	}
	return nil
}

// standardReasons are those of decisions in a queue without a reason of their own.
var standardReasons = map[string]string{
	staff.Hide: "Against the rules of this platform.", staff.Dismiss: "The reports are unfounded.",
	approve: "Approved in the queue.", reject: "Not for this platform.", block: "Repeatedly against the rules.",
}

// decideItem decides about the item of a queue, and leads to the next one, or about the comment of a page.
func (c *Console) decideItem(ctx context.Context, v *visit) (done *outcome, err error) {
	decision := v.PostForm.Get("decision")
	if v.PostForm.Get("reason") == "" {
		standard := standardReasons[decision]
		if decision == staff.Hide {
			standard = cmp.Or(v.PostForm.Get("suggested"), standard)
		}
		v.PostForm.Set("reason", standard)
	}
	if decision == block {
		done, err = c.blockAuthor(ctx, v)
	} else if mux.Vars(v.Request)["queue"] == "novels" {
		done, err = decideNovels(ctx, v)
	} else {
		done, err = c.decide(ctx, v)
	}
	if err != nil {
		return nil, err
	}
	done.to = local(v.PostForm.Get("next"))
	if done.to == "" {
		done.to = local(v.URL.Path[len("/console"):])
	}
	return done, nil
}

// blockAuthor blocks the author of the comment, and hides the comment.
func (c *Console) blockAuthor(ctx context.Context, v *visit) (*outcome, error) {
	id, err := selectedOne(v, "post")
	if err != nil {
		return nil, err
	}
	found, err := v.staff.Post(ctx, id)
	if err != nil {
		return nil, err
	}
	if found.Author == nil {
		return nil, problem.New(problem.CodeConflict, "The author of this comment was erased.")
	}
	name := staff.AuthorName{IntegrationID: found.IntegrationID, ExternalUUID: found.Author.ExternalUUID}
	reason := v.PostForm.Get("reason")
	if _, err := v.command("/block").BlockAuthor(ctx, name, reason); isNew(err) != nil {
		return nil, isNew(err)
	}
	decided, err := decidePosts(ctx, v, staff.Hide, []uuid.UUID{id}, reason)
	if err != nil {
		return nil, err
	}
	c.awaitLists(ctx)
	done := &outcome{
		notice: "Blocked " + found.Author.Username + ", and hid the comment.",
		undo: &undo{
			Label: "Unblock " + found.Author.Username + " and restore the comment", Author: &name, OnAuthor: unblock,
			Decision: staff.Restore, Posts: []uuid.UUID{id},
		},
	}
	if decided.Items[0].Problem != nil { // it was hidden before
		done.notice = "Blocked " + found.Author.Username + "."
		done.undo.Posts = nil
	}
	return done, nil
}

// awaitLists waits for up to a second until the lists have followed the log, so that a page after a decision shows it.
func (c *Console) awaitLists(ctx context.Context) {
	const patience, interval = time.Second, 10 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var end int64
	if c.Pool.QueryRow(ctx, `SELECT coalesce(max(log_index), -1) FROM events`).Scan(&end) != nil {
		return
	}
	for {
		var follows bool
		err := c.Pool.QueryRow(ctx, `SELECT position > $2 FROM projections WHERE name = $1`, projections.Posts{}.Name(), end).
			Scan(&follows)
		if err != nil || follows || !eventlog.Sleep(ctx, interval) {
			return
		}
	}
}

// takeBack undoes the latest decision of the session.
func (c *Console) takeBack(ctx context.Context, v *visit) (*outcome, error) {
	const reason = "The decision before was a mistake."
	u := v.session.undo
	if u == nil {
		return nil, problem.New(problem.CodeConflict, "There is nothing to undo.")
	}
	if v.PostForm.Get("undo") != u.ID.String() {
		return nil, problem.New(problem.CodeConflict, "You have decided something else since. The button now undoes that.")
	}
	done := &outcome{to: u.To}
	if u.Author != nil {
		_, err := authorDecisions[u.OnAuthor].decide(v.command("/author"), ctx, *u.Author, reason)
		if err = isNew(err); err != nil {
			return nil, err
		}
	}
	if u.Integration != uuid.Nil {
		if err := c.takeBackPartner(ctx, v, u, reason); err != nil {
			return nil, err
		}
	}
	if u.To == "" {
		done.notice = "Done: " + u.Label + "."
	}
	if len(u.Posts) > 0 {
		decided, err := decidePosts(ctx, v, u.Decision, u.Posts, reason)
		if err != nil {
			return nil, err
		}
		c.awaitLists(ctx)
		done.notice = outcomes(done.notice, decided)
	}
	if len(u.Novels) > 0 {
		again, err := moderateNovels(ctx, v, u.Decision, u.Novels, reason)
		if err != nil {
			return nil, err
		}
		done.notice = again.notice
	}
	return done, c.sessions.forget(ctx, v.session, "undo")
}

// errOtherForm refuses a form that was sent before with something else in it: a page to which the browser went back
// still has the identifier of its form.
var errOtherForm = problem.New(problem.CodeConflict,
	"This page was used for another decision before. See here what holds now, and decide again.")

// isNew returns the error of a command, unless the form was sent twice and the first has carried it out.
func isNew(err error) error {
	replayed, ok := errors.AsType[*staff.ReplayedError](err)
	switch {
	case !ok:
		return err
	case replayed.Mismatch:
		return errOtherForm
	default:
		return nil
	}
}

// decidePosts decides about comments.
func decidePosts(
	ctx context.Context, v *visit, decision string, posts []uuid.UUID, reason string,
) (staff.Decisions, error) {
	decided, err := v.command("").DecidePosts(ctx, decision, posts, reason)
	if err == nil && decided.Mismatch() {
		err = errOtherForm
	}
	return decided, err
}

// outcomes adds to a text why decisions about some comments were refused.
func outcomes(text string, decided staff.Decisions) string {
	refused, why := 0, ""
	for _, item := range decided.Items {
		if item.Problem != nil {
			refused, why = refused+1, item.Problem.Detail
		}
	}
	switch refused {
	case 0:
		return text
	case len(decided.Items):
		return "Nothing was changed. " + why
	default:
		return fmt.Sprintf("%s Not %s. The last reason: %s", text, count(refused, "of them", "of them"), why)
	}
}
