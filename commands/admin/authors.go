package admin

import (
	"context"
	"net/http"
	"net/url"

	"github.com/gorilla/mux"

	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// The paths of the routes. The uuid is the partner's and may contain any character, so the router matches its
// percent-encoded form. The operation refuses an empty one.
const (
	authorsPath = integrationPath + "/authors"
	authorPath  = authorsPath + "/{uuid:[^/]*}"
	memberPath  = authorPath + "/member"
)

func (a *API) registerAuthorRoutes(router *mux.Router) {
	// Without a prefix: mux answers 404 instead of 405 to a wrong method when another route shares a prefix.
	encoded := router.NewRoute().Subrouter().UseEncodedPath()
	for _, route := range []struct {
		method, path string
		handle       operation
		query        []string
	}{
		{http.MethodGet, authorsPath, listAuthors, []string{"linked", "blocked", "limit", "cursor"}},
		{http.MethodGet, authorPath, showAuthor, nil},
		{http.MethodDelete, authorPath, eraseAuthor, []string{"reason"}},
		{http.MethodPut, memberPath, linkAuthor, nil},
		{http.MethodDelete, memberPath, unlinkAuthor, []string{"reason"}},
		{http.MethodPost, authorPath + "/block", moderateAuthor("block", (*staff.Staff).BlockAuthor), nil},
		{http.MethodPost, authorPath + "/unblock", moderateAuthor("unblock", (*staff.Staff).UnblockAuthor), nil},
		{http.MethodPost, authorPath + "/hide-posts", moderateAuthor("hide-posts", (*staff.Staff).HideAuthorPosts), nil},
		{
			http.MethodPost, authorPath + "/restore-posts", moderateAuthor("restore-posts", (*staff.Staff).RestoreAuthorPosts),
			nil,
		},
	} {
		encoded.Handle(route.path, a.handler(route.handle, route.query...)).Methods(route.method)
	}
}

// author returns the author that the path names.
func (c *call) author() (staff.AuthorName, error) {
	id, err := c.id("integrationId")
	if err != nil {
		return staff.AuthorName{}, err
	}
	external, err := url.PathUnescape(mux.Vars(c.Request)["uuid"])
	if err != nil {
		return staff.AuthorName{}, problem.NotFound() // unreachable: the server has parsed the path
	}
	return staff.AuthorName{IntegrationID: id, ExternalUUID: external}, nil
}

// moderateAuthor returns the operation of a staff action on an author.
func moderateAuthor(
	name string, command func(s *staff.Staff, ctx context.Context, name staff.AuthorName, reason string) (staff.Author,
		error),
) operation {
	return func(ctx context.Context, c *call) (*output, error) {
		who, err := c.author()
		if err != nil {
			return nil, err
		}
		// A source cannot be erased, so it contains the derived id instead of the partner's identifier, which is personal
		// data.
		if err := c.deliver("authors/" + events.AuthorID(who.IntegrationID,
			who.ExternalUUID).String() + "/" + name); err != nil {
			return nil, err
		}
		var body decision
		if err := c.decode(&body); err != nil {
			return nil, err
		}
		decided, err := command(c.staff, ctx, who, body.Reason)
		return commandOutput(http.StatusOK, decided, err, func(*staff.ReplayedError) (staff.Author, error) {
			return c.staff.Author(ctx, who)
		})
	}
}

// link is the body of PUT on the member of an author.
type link struct {
	MemberID string `json:"memberId"`
	Reason   string `json:"reason"`
}

func (*link) members() []string { return []string{"memberId", "reason"} }

func (l *link) read(o *httpkit.Object) {
	l.MemberID, _ = o.Text("memberId", false)
	l.Reason, _ = o.Text("reason", false)
}

// linkAuthor attributes an author's comments to a member. It is idempotent.
func linkAuthor(ctx context.Context, c *call) (*output, error) {
	who, err := c.author()
	if err != nil {
		return nil, err
	}
	var body link
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	linked, err := c.staff.LinkAuthor(ctx, who, body.MemberID, body.Reason)
	return &output{status: http.StatusOK, body: linked}, err
}

func unlinkAuthor(ctx context.Context, c *call) (*output, error) {
	who, err := c.author()
	if err != nil {
		return nil, err
	}
	_, err = c.staff.UnlinkAuthor(ctx, who, c.query.Text("reason"))
	return &output{}, err
}

func eraseAuthor(ctx context.Context, c *call) (*output, error) {
	who, err := c.author()
	if err != nil {
		return nil, err
	}
	erased, err := c.staff.EraseAuthor(ctx, who, c.query.Text("reason"))
	return &output{status: http.StatusOK, body: erased}, err
}

// authorWithHistory is an author with the decisions about them.
type authorWithHistory struct {
	staff.Author
	History []staff.HistoryEntry `json:"history"`
}

func showAuthor(ctx context.Context, c *call) (*output, error) {
	who, err := c.author()
	if err != nil {
		return nil, err
	}
	found, err := c.staff.Author(ctx, who)
	if err != nil {
		return nil, err
	}
	history, err := c.staff.AuthorHistory(ctx, who)
	return &output{status: http.StatusOK, body: authorWithHistory{found, history}}, err
}

func listAuthors(ctx context.Context, c *call) (*output, error) {
	id, err := c.id("integrationId")
	if err != nil {
		return nil, err
	}
	limit := c.limit()
	filter := staff.AuthorFilter{
		IntegrationID: id, After: c.textCursor(authorList(id)), Limit: limit + 1,
		Linked: c.query.Bool("linked"), Blocked: c.query.Bool("blocked"),
	}
	if err := c.query.Err(); err != nil {
		return nil, err //nolint:wrapcheck // already a problem
	}
	found, err := c.staff.ListAuthors(ctx, filter)
	if err != nil {
		return nil, err
	}
	return paginate(authorList(id), found, limit, byExternalUUID)
}
