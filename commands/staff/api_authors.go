package staff

import (
	"context"

	"github.com/google/uuid"

	"novelgate/internal/web"
)

// moderateAuthor returns the operation of a staff action on an author.
func moderateAuthor(
	command func(s *Staff, ctx context.Context, name AuthorName, reason string) (Author, error),
) operation {
	return moderate(func(c *call) AuthorName { return c.author }, command, (*Staff).Author)
}

// link is the body of PUT on the member of an author.
type link struct {
	MemberID string `json:"memberId"`
	Reason   string `json:"reason"`
}

// linkAuthor attributes an author's comments to a member. It is idempotent.
func linkAuthor(ctx context.Context, c *call, body link) (*web.Answer, error) {
	return answer(c.staff.LinkAuthor(ctx, c.author, body.MemberID, body.Reason))
}

func unlinkAuthor(ctx context.Context, c *call) (*web.Answer, error) {
	_, err := c.staff.UnlinkAuthor(ctx, c.author, c.query.Text("reason"))
	return &web.Answer{}, err
}

func eraseAuthor(ctx context.Context, c *call) (*web.Answer, error) {
	return answer(c.staff.EraseAuthor(ctx, c.author, c.query.Text("reason")))
}

func showAuthor(ctx context.Context, c *call) (*web.Answer, error) {
	return answer(c.staff.AuthorWithHistory(ctx, c.author))
}

// authorList is the name of the list of the authors of an integration in cursors.
func authorList(integration uuid.UUID) string { return "a" + string(integration[:]) }

func listAuthors(ctx context.Context, c *call) (*web.Answer, error) {
	list := authorList(c.id)
	limit := c.limit()
	filter := AuthorFilter{
		IntegrationID: c.id, After: c.textCursor(list), Limit: limit + 1,
		Linked: c.query.Bool("linked"), Blocked: c.query.Bool("blocked"),
	}
	return paginate(c, list, limit, func(a *Author) string { return a.ExternalUUID },
		func() ([]Author, error) { return c.staff.ListAuthors(ctx, filter) })
}
