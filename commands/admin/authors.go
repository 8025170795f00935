package admin

import (
	"context"
	"net/http"

	"novelgate/commands/staff"
	"novelgate/internal/httpkit"
)

// moderateAuthor returns the operation of a staff action on an author.
func moderateAuthor(
	command func(s *staff.Staff, ctx context.Context, name staff.AuthorName, reason string) (staff.Author, error),
) operation {
	return moderate(func(c *call) staff.AuthorName { return c.author }, command, (*staff.Staff).Author)
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
func linkAuthor(ctx context.Context, c *call, body link) (*output, error) {
	linked, err := c.staff.LinkAuthor(ctx, c.author, body.MemberID, body.Reason)
	return &output{status: http.StatusOK, body: linked}, err
}

func unlinkAuthor(ctx context.Context, c *call) (*output, error) {
	_, err := c.staff.UnlinkAuthor(ctx, c.author, c.query.Text("reason"))
	return &output{}, err
}

func eraseAuthor(ctx context.Context, c *call) (*output, error) {
	erased, err := c.staff.EraseAuthor(ctx, c.author, c.query.Text("reason"))
	return &output{status: http.StatusOK, body: erased}, err
}

func showAuthor(ctx context.Context, c *call) (*output, error) {
	found, err := c.staff.AuthorWithHistory(ctx, c.author)
	return &output{status: http.StatusOK, body: found}, err
}

func listAuthors(ctx context.Context, c *call) (*output, error) {
	limit := c.limit()
	filter := staff.AuthorFilter{
		IntegrationID: c.id, After: c.textCursor(authorList(c.id)), Limit: limit + 1,
		Linked: c.query.Bool("linked"), Blocked: c.query.Bool("blocked"),
	}
	return paginate(c, authorList(c.id), limit, func(a staff.Author) string { return a.ExternalUUID },
		func() ([]staff.Author, error) { return c.staff.ListAuthors(ctx, filter) })
}
