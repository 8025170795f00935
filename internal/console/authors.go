package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/commands/staff"
	"novelgate/internal/names"
	"novelgate/internal/problem"
	"novelgate/internal/web"
)

func (c *Console) authorPages() []page {
	return []page{
		{path: "/authors", query: []string{"integration", "uuid", "state", "cursor"}, show: c.authors},
		{
			path: "/authors/{integrationId}/{uuid:[^/]*}", query: []string{"uuid"}, show: c.author, act: c.decideAuthor,
		},
	}
}

// segment escapes a partner's identifier of an author for the end of the path of their page. Browsers resolve the
// segments . and .., escaped or not: these are sent as a parameter.
func segment(externalUUID string) string {
	if externalUUID == "." || externalUUID == ".." {
		return "?uuid=" + externalUUID
	}
	return url.PathEscape(externalUUID)
}

// authorName reads the author of a path with segment.
func authorName(v *visit) (staff.AuthorName, error) {
	id, err := web.PathID(v.Request, "integrationId")
	return staff.AuthorName{
		IntegrationID: id, ExternalUUID: cmp.Or(mux.Vars(v.Request)["uuid"], v.query.Text("uuid")),
	}, err
}

// authorsBody is what the list of authors shows.
type authorsBody struct {
	Filter   url.Values // as sent
	Partners []staff.Integration
	Authors  []listedAuthor
	Next     string // path; "" on the last page
}

type listedAuthor struct {
	staff.Author

	Partner string
}

// authorList is the name of the list of authors in cursors.
const authorList = "a"

func (c *Console) authors(ctx context.Context, v *visit) (*view, error) {
	q := v.query
	only := q.ID("integration")
	f := staff.AuthorFilter{Prefix: q.Text("uuid")}
	switch q.OneOf("state", "blocked", "linked") {
	case "blocked":
		f.Blocked = new(true)
	case "linked":
		f.Linked = new(true)
	}
	after := q.Cursor(authorList)
	if err := q.Err(); err != nil {
		return nil, err
	}
	body := &authorsBody{Filter: v.URL.Query()}
	var err error
	if body.Partners, err = v.staff.ListIntegrations(ctx, uuid.Nil, partnerChoices); err != nil {
		return nil, err
	}
	of := []uuid.UUID{only.UUID}
	if !only.Valid {
		of = nil
		for _, partner := range body.Partners {
			of = append(of, partner.ID)
		}
	}
	found, next, err := authorsOf(ctx, v, f, of, after)
	if err != nil {
		return nil, err
	}
	if next != "" {
		body.Next = nextPage(v, "cursor", web.EncodeCursor(authorList, next))
	}
	called, err := names.Of(ctx, c.Pool, of...)
	for _, a := range found {
		body.Authors = append(body.Authors, listedAuthor{a, called[a.IntegrationID]})
	}
	return &view{template: "authors", title: "Authors", body: body}, err
}

// authorsOf returns a page of the authors of partners, who are in the order of their ids. after and next are an id and
// the author after whom the list goes on.
func authorsOf(
	ctx context.Context, v *visit, f staff.AuthorFilter, partners []uuid.UUID, after string,
) (list []staff.Author, next string, err error) {
	const most = 50 // partners of a page: few may have an author that matches
	from, author, _ := strings.Cut(after, " ")
	partners = slices.DeleteFunc(partners, func(id uuid.UUID) bool { return id.String() < from })
	for i, id := range partners {
		if i == most {
			return list, id.String() + " ", nil
		}
		if f.After = ""; id.String() == from {
			f.After = author
		}
		f.IntegrationID, f.Limit = id, pageSize+1-len(list)
		found, err := v.staff.ListAuthors(ctx, f)
		if err != nil {
			return nil, "", err
		}
		if list = append(list, found...); len(list) > pageSize {
			last := list[pageSize-1]
			return list[:pageSize], last.IntegrationID.String() + " " + last.ExternalUUID, nil
		}
	}
	return list, "", nil
}

// authorBody is what the page of an author shows.
type authorBody struct {
	staff.AuthorContext

	Known   bool // the author has commented, or something was decided about them
	Partner string
	Names   []string           // others than the display name, on the latest comments
	Latest  []staff.ListedPost // comments
	Notes   []note
}

func (c *Console) author(ctx context.Context, v *visit) (*view, error) {
	name, err := authorName(v)
	if err != nil {
		return nil, err
	}
	partner, err := v.staff.Integration(ctx, name.IntegrationID.String())
	if err != nil {
		return nil, err
	}
	body := &authorBody{Partner: partner.Name, Known: true}
	body.AuthorContext, err = v.staff.AuthorContext(ctx, name)
	if errors.Is(err, staff.ErrNoSuchAuthor) { // they can be blocked before they comment
		body.Known = false
		body.Author = staff.Author{IntegrationID: name.IntegrationID, ExternalUUID: name.ExternalUUID}
		body.ID, err = name.ID(ctx, c.Pool)
	}
	if err != nil {
		return nil, err
	}
	const shown = 10
	found, err := v.staff.PostsPage(ctx, staff.PostFilter{AuthorID: body.ID, Limit: pageSize})
	if err != nil {
		return nil, err
	}
	for _, p := range found.Items {
		if p.Author != nil && p.Author.Username != called(body.Author) && !slices.Contains(body.Names, p.Author.Username) {
			body.Names = append(body.Names, p.Author.Username)
		}
	}
	body.Latest = found.Items[:min(shown, len(found.Items))]
	body.Notes, err = c.notes(ctx, body.ID)
	return &view{template: "author", title: called(body.Author), body: body}, err
}

// called is what people call an author.
func called(a staff.Author) string {
	if a.DisplayName == nil {
		return "the author"
	}
	return *a.DisplayName
}

// What staff may decide about an author, besides an erasure.
const (
	block      = "block"
	unblock    = "unblock"
	hideAll    = "hide-posts"
	restoreAll = "restore-posts"
	link       = "link"
	unlink     = "unlink"
)

type authorDecision func(
	s *staff.Staff, ctx context.Context, name staff.AuthorName, reason string,
) (staff.Author, error)

var authorDecisions = map[string]struct {
	label, done string // before the name of the author
	decide      authorDecision
	undo        string // the decision that takes it back
}{
	block:      {"Block", "Blocked", (*staff.Staff).BlockAuthor, unblock},
	unblock:    {"Unblock", "Unblocked", (*staff.Staff).UnblockAuthor, block},
	hideAll:    {"Hide all comments of", "Hid all comments of", (*staff.Staff).HideAuthorPosts, restoreAll},
	restoreAll: {"Restore the comments of", "Restored the comments of", (*staff.Staff).RestoreAuthorPosts, hideAll},
	link:       {"", "Linked", nil, unlink}, // with a member
	unlink:     {"Unlink", "Unlinked", (*staff.Staff).UnlinkAuthor, ""},
}

// decideAuthor decides about an author.
func (c *Console) decideAuthor(ctx context.Context, v *visit) (*outcome, error) {
	name, err := authorName(v)
	if err != nil {
		return nil, err
	}
	before, err := v.staff.Author(ctx, name)
	if err != nil && !errors.Is(err, staff.ErrNoSuchAuthor) {
		return nil, err
	}
	who, action := called(before), v.PostForm.Get("action")
	if action == "erase" {
		return c.eraseAuthor(ctx, v, name, who)
	}
	d, known := authorDecisions[action]
	if !known {
		return nil, problem.InvalidField("action", "is not a decision about an author")
	}
	done := &outcome{notice: d.done + " " + who + "."}
	if action == link {
		member := v.PostForm.Get("member")
		done.notice = "Linked " + who + " to the member " + member + "."
		d.decide = func(s *staff.Staff, ctx context.Context, name staff.AuthorName, reason string) (staff.Author, error) {
			return s.LinkAuthor(ctx, name, member, reason)
		}
	}
	if _, err := d.decide(v.command(""), ctx, name, v.PostForm.Get("reason")); isNew(err) != nil {
		return nil, isNew(err)
	}
	c.awaitLists(ctx)
	if replaced := action == link && before.MemberID != nil; d.undo == "" || replaced {
		done.undo = &undo{
			Label: "Decide again about " + who, To: "/authors/" + name.IntegrationID.String() + "/" + segment(name.ExternalUUID),
		}
	} else {
		done.undo = &undo{Label: authorDecisions[d.undo].label + " " + who, Author: &name, OnAuthor: d.undo}
	}
	return done, nil
}

// eraseAuthor erases an author, and says what is left to be done.
func (c *Console) eraseAuthor(ctx context.Context, v *visit, name staff.AuthorName, who string) (*outcome, error) {
	if asked := confirm(v, "Erase "+who+" for good? Their names, their identifier and all their comments are removed, "+
		"from the history as well, and nobody can restore them. Replies by others stay, and so does a block.",
		"Erase for good"); asked != nil {
		return asked, nil
	}
	erased, err := v.command("").EraseAuthor(ctx, name, v.PostForm.Get("reason"))
	if err = isNew(err); err != nil {
		return nil, err
	}
	said := []string{fmt.Sprintf("Erased: %s and %s.", count(erased.Comments, "comment", "comments"),
		count(erased.Decisions, "decision", "decisions"))}
	const patience = 500 * time.Millisecond
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = v.staff.AwaitErased(waiting, erased.AuthorID)
	if pending, ok := errors.AsType[*staff.NotAppliedError](err); ok {
		said = append(said, "Their comments are shown until these projections have followed: "+
			strings.Join(pending.Projections, ", ")+".")
	} else if err != nil {
		return nil, err
	}
	unfinished, err := v.staff.UnfinishedRebuilds(ctx)
	if err != nil {
		return nil, err
	}
	for _, rebuild := range unfinished {
		said = append(said, "The unfinished rebuild of "+rebuild+" keeps the data until it is finished or discarded.")
	}
	said = append(said, "The files of the database keep the data until an operator rewrites them: novelgate author erase "+
		"--rewrite.")
	return &outcome{notice: strings.Join(said, " "), to: "/authors?integration=" + name.IntegrationID.String()},
		Forget(ctx, c.Pool)
}
