package console

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/commands/request"
	"novelgate/commands/staff"
	"novelgate/internal/names"
	"novelgate/internal/problem"
	"novelgate/internal/web"
)

func (c *Console) novelPages() []page {
	return []page{
		{path: "/novels", query: []string{"text", "state", "owner", "cursor"}, show: c.novels, act: decideNovels},
		{path: "/novels/{novelId}", show: c.novel, act: c.changeNovel},
	}
}

// novelsBody is what the list of novels shows.
type novelsBody struct {
	Filter   url.Values // as sent
	States   []string
	Partners []staff.Integration
	Novels   []staff.Novel
	Next     string // path; "" on the last page
}

var novelStates = []string{
	string(novel.Pending), string(novel.Approved), string(novel.Published), string(novel.Rejected), string(novel.Free),
}

// novelList is the name of the list of novels in cursors.
const novelList = "t"

func (c *Console) novels(ctx context.Context, v *visit) (*view, error) {
	q := v.query
	f := staff.NovelFilter{
		State: novel.State(q.OneOf("state", novelStates...)), Owner: q.Text("owner"), Text: q.Text("text"),
		After: q.Cursor(novelList), Limit: pageSize,
	}
	if f.Owner != "" && f.Owner != staff.Host && f.Owner != staff.NoOwner {
		f.Owner = q.ID("owner").UUID.String()
	}
	if err := q.Err(); err != nil {
		return nil, err
	}
	body := &novelsBody{Filter: v.URL.Query(), States: novelStates}
	found, err := v.staff.NovelsPage(ctx, f)
	if err != nil {
		return nil, err
	}
	if body.Novels = found.Items; found.Next != "" {
		body.Next = nextPage(v, "cursor", web.EncodeCursor(novelList, found.Next))
	}
	if err := c.nameOwners(ctx, body.Novels); err != nil {
		return nil, err
	}
	body.Partners, err = v.staff.ListIntegrations(ctx, uuid.Nil, partnerChoices)
	return &view{template: "novels", title: "Novels", body: body}, err
}

// nameOwners sets the names of the integrations that own the novels.
func (c *Console) nameOwners(ctx context.Context, list []staff.Novel) error {
	var owners []uuid.UUID
	for _, n := range list {
		if id, ok := web.ParseID(n.Owner); ok && !slices.Contains(owners, id) {
			owners = append(owners, id)
		}
	}
	called, err := names.Of(ctx, c.Pool, owners...)
	for i := range list {
		if id, ok := web.ParseID(list[i].Owner); ok {
			list[i].OwnerName = called[id]
		}
	}
	return err
}

// novelBody is what the page of a novel shows.
type novelBody struct {
	staff.Novel

	Barred   bool     // the title was rejected before its first import
	Comments int64    // imported, whatever became of them
	Can      []string // what staff may decide in its state
	Fields   []novelField
	Problem  string // why an edit was refused
	Notes    []note
}

// novelField is a field of the form that edits a novel.
type novelField struct {
	Name, Label, Value string
	Was                string // before the edit: what is not changed here may be changed by somebody else meanwhile
	Long               bool   // has lines
	Choices            []string
}

const commentsOfNovelSQL = `SELECT coalesce(sum(a.posts), 0)::bigint
FROM threads t JOIN thread_activity a ON a.thread_id = t.thread_id WHERE t.novel_id = $1`

func (c *Console) novel(ctx context.Context, v *visit) (*view, error) {
	id, err := web.PathID(v.Request, "novelId")
	if err != nil {
		return nil, err
	}
	found, err := v.staff.NovelWithHistory(ctx, id)
	if err != nil {
		return nil, err
	}
	body := &novelBody{
		Novel: found, Can: possible(found.State), Barred: found.State == novel.Rejected && found.Owner == staff.NoOwner,
	}
	if err := c.Pool.QueryRow(ctx, commentsOfNovelSQL, id).Scan(&body.Comments); err != nil {
		return nil, fmt.Errorf("count the comments of a novel: %w", err)
	}
	if found.State == novel.Published {
		body.Fields = novelFields(found)
	}
	body.Notes, err = c.notes(ctx, id)
	return &view{template: "novel", title: found.Title, body: body}, err
}

// possible returns the decisions about a novel in a state. The aggregate refuses any other.
func possible(state novel.State) []string {
	switch state {
	case novel.Pending:
		return []string{approve, reject, publish}
	case novel.Approved, novel.Free:
		return []string{reject, publish}
	case novel.Rejected:
		return []string{approve}
	case novel.Published:
	}
	return nil
}

// novelFields returns the fields of a novel that staff may edit, by the names that the API gives them.
func novelFields(n staff.Novel) []novelField {
	fields := []novelField{
		{Name: "author", Label: "Author", Value: n.Author},
		{Name: "synopsis", Label: "Synopsis", Value: n.Synopsis, Long: true},
		{Name: "genres", Label: "Genres, one on a line", Value: strings.Join(n.Genres, "\n"), Long: true},
		{Name: "language", Label: "Language", Value: n.Language},
		{Name: "coverUrl", Label: "Address of the cover (https)", Value: n.CoverURL},
		{
			Name: "readingStatus", Label: "Reading status", Value: n.ReadingStatus,
			Choices: []string{"ongoing", "completed", "hiatus"},
		},
	}
	for i := range fields {
		fields[i].Was = fields[i].Value
	}
	return fields
}

// What staff may decide about a novel.
const (
	approve = "approve"
	reject  = "reject"
	publish = "publish"
)

type novelDecision func(s *staff.Staff, ctx context.Context, id uuid.UUID, reason string) (staff.Novel, error)

var novelDecisions = map[string]struct {
	done   string
	decide novelDecision
	undo   string // the decision that takes it back, unless the novel was pending
}{
	approve: {"Approved", (*staff.Staff).ApproveByID, reject},
	reject:  {"Rejected", (*staff.Staff).RejectByID, approve},
	publish: {"Published", (*staff.Staff).PublishByID, ""},
}

// decideNovels executes a decision about the selected novels.
func decideNovels(ctx context.Context, v *visit) (*outcome, error) {
	const most = 100
	novels, err := selected(v, "novel", most)
	if err != nil {
		return nil, err
	}
	decision := v.PostForm.Get("decision")
	if decision != approve && decision != reject {
		return nil, problem.InvalidField("decision", "must be approve or reject")
	}
	return moderateNovels(ctx, v, decision, novels, v.PostForm.Get("reason"))
}

// moderateNovels executes a decision about novels, with a command each. A refusal of one does not keep the others from
// being carried out. After an error some may have been: the same form completes the rest.
func moderateNovels(
	ctx context.Context, v *visit, decision string, novels []uuid.UUID, reason string,
) (*outcome, error) {
	if strings.TrimSpace(reason) == "" {
		return nil, staff.ErrReasonRequired
	}
	d := novelDecisions[decision]
	var changed []staff.Novel // as before
	refused := &refusals{}
	for _, id := range novels {
		before, err := v.staff.NovelByID(ctx, id)
		if err == nil {
			_, err = d.decide(v.command("/"+id.String()), ctx, id, reason)
		}
		switch p := staff.Problem(isNew(err)); {
		case p != nil && len(novels) == 1:
			return nil, err
		case p != nil:
			refused.add(sentence(p), cmp.Or(before.Title, id.String()))
		case isNew(err) != nil:
			return nil, isNew(err)
		default:
			changed = append(changed, before)
		}
	}
	if len(changed) == 0 {
		return &outcome{notice: "Nothing was changed." + refused.String()}, nil
	}
	what := quoted(changed[0].Title)
	if len(changed) > 1 {
		what = count(len(changed), "novel", "novels")
	}
	return &outcome{notice: d.done + " " + what + "." + refused.String(), undo: undoNovels(decision, what, changed)}, nil
}

// undoNovels takes a decision back, or leads to where it can be taken again if a novel was pending: no decision leads
// back to that state. A publication is for good.
func undoNovels(decision, what string, before []staff.Novel) *undo {
	back := novelDecisions[decision].undo
	if back == "" {
		return nil
	}
	u := &undo{Label: strings.ToUpper(back[:1]) + back[1:] + " " + what, Decision: back}
	for _, n := range before {
		u.Novels = append(u.Novels, n.NovelID)
		if n.State == novel.Pending {
			u.To = "/novels?state=" + map[string]string{approve: "approved", reject: "rejected"}[decision]
		}
	}
	if u.To == "" {
		return u
	}
	if len(before) == 1 {
		u.To = "/novels/" + before[0].NovelID.String()
	}
	return &undo{Label: "Decide again about " + what, To: u.To}
}

// quoted is a title within a sentence.
func quoted(title string) string { return "“" + title + "”" }

// refusals are the reasons why some of several items were not changed, each with the items.
type refusals struct {
	why   []string
	items map[string][]string
}

func (r *refusals) add(why, item string) {
	if r.items == nil {
		r.items = map[string][]string{}
	}
	if r.items[why] == nil {
		r.why = append(r.why, why)
	}
	r.items[why] = append(r.items[why], quoted(item))
}

// String returns sentences that follow others; "" if nothing was refused.
func (r *refusals) String() string {
	text := ""
	for _, why := range r.why {
		text += " Not " + strings.Join(r.items[why], ", ") + ": " + why
	}
	return text
}

// changeNovel decides about a novel, or edits it.
func (c *Console) changeNovel(ctx context.Context, v *visit) (*outcome, error) {
	id, err := web.PathID(v.Request, "novelId")
	if err != nil {
		return nil, err
	}
	reason := v.PostForm.Get("reason")
	switch action := v.PostForm.Get("action"); action {
	case approve, reject:
		return moderateNovels(ctx, v, action, []uuid.UUID{id}, reason)
	case publish:
		found, err := v.staff.NovelByID(ctx, id)
		if err != nil {
			return nil, err
		}
		if asked := confirm(v, "Publish "+quoted(found.Title)+"? The host platform takes it over for good: no partner can "+
			"change it any more, and it cannot be rejected.", "Publish for good"); asked != nil {
			return asked, nil
		}
		return moderateNovels(ctx, v, action, []uuid.UUID{id}, reason)
	case "edit":
		return c.editNovel(ctx, v, id)
	default:
		return nil, problem.InvalidField("action", "must be approve, reject, publish or edit")
	}
}

// editNovel changes the fields of a novel that were changed in the form. A refused form is shown again as it was sent.
func (c *Console) editNovel(ctx context.Context, v *visit, id uuid.UUID) (*outcome, error) {
	sent := map[string]any{}
	fields := novelFields(staff.Novel{})
	for i := range fields {
		f := &fields[i]
		f.Value, f.Was = lines(v.PostForm.Get(f.Name)), lines(v.PostForm.Get("was-"+f.Name))
		switch {
		case f.Value == f.Was:
		case f.Name == "genres":
			sent[f.Name] = strings.FieldsFunc(f.Value, func(r rune) bool { return r == '\n' })
		default:
			sent[f.Name] = f.Value
		}
	}
	if len(sent) == 0 {
		return &outcome{notice: "Nothing was changed."}, nil
	}
	sent["reason"] = v.PostForm.Get("reason")
	body, err := json.Marshal(sent)
	if err != nil {
		return nil, problem.InvalidRequest().WithDetail("A field is not text.")
	}
	edit, err := request.DecodeEdit(body)
	if err != nil {
		shown, showErr := c.novel(ctx, v)
		if showErr != nil {
			return nil, showErr
		}
		refused := c.Kit.Report(v.Request, err)
		again, _ := shown.body.(*novelBody)
		again.Fields, again.Problem, shown.status = fields, sentence(refused), refused.Code.Status()
		return &outcome{view: shown}, nil
	}
	if _, err := v.command("").EditNovel(ctx, id, edit.Fields, edit.Reason); isNew(err) != nil {
		return nil, isNew(err)
	}
	return &outcome{notice: "The changes are saved."}, nil
}

// lines returns a text of a form with the line ends that browsers convert.
func lines(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}
