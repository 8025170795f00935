package staff

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/commands/request"
	"novelgate/internal/web"
)

// rejection is the body of POST /api/admin/novels/reject.
type rejection struct {
	Novel  string `json:"novel"`
	Reason string `json:"reason"`
}

// publishTitle publishes a known or unknown title, with the fields of the body.
func publishTitle(ctx context.Context, c *call) (*web.Answer, error) {
	body, err := request.DecodePublication(c.Body)
	if err != nil {
		return nil, err
	}
	published, err := c.staff.PublishNovel(ctx, body.Title, body.Fields, body.Reason)
	return c.commandAnswer(http.StatusCreated, published, err, c.novel(ctx))
}

// novel returns a function that reads the current state of a novel.
func (c *call) novel(ctx context.Context) func(uuid.UUID) (any, error) {
	return func(id uuid.UUID) (any, error) { return c.staff.NovelByID(ctx, id) }
}

// editNovel changes fields of a canonical novel.
func editNovel(ctx context.Context, c *call) (*web.Answer, error) {
	body, err := request.DecodeEdit(c.Body)
	if err != nil {
		return nil, err
	}
	return answer(c.staff.EditNovel(ctx, c.id, body.Fields, body.Reason))
}

// rejectTitle rejects a known or unknown title.
func rejectTitle(ctx context.Context, c *call, body rejection) (*web.Answer, error) {
	rejected, err := c.staff.RejectNovel(ctx, body.Novel, body.Reason)
	return c.commandAnswer(http.StatusOK, rejected, err, c.novel(ctx))
}

// moderateNovel returns the operation that moves a novel to another state.
func moderateNovel(
	command func(s *Staff, ctx context.Context, id uuid.UUID, reason string) (Novel, error),
) operation {
	return moderate(func(c *call) uuid.UUID { return c.id }, command, (*Staff).NovelByID)
}

// novelList is the name of the list of novels in cursors.
const novelList = "t" // by title

func listNovels(ctx context.Context, c *call) (*web.Answer, error) {
	limit := c.limit()
	filter := NovelFilter{
		State: novel.State(c.query.OneOf("state", string(novel.Pending), string(novel.Approved),
			string(novel.Published), string(novel.Rejected), string(novel.Free))),
		Owner: c.query.Text("owner"), Text: c.query.Text("text"), After: c.textCursor(novelList), Limit: limit + 1,
	}
	switch filter.Owner {
	case "", Host, NoOwner:
	default:
		id, err := uuid.Parse(filter.Owner)
		if err != nil {
			c.query.Refuse("owner", `must be the id of an integration, "host" or "none"`)
		}
		filter.Owner = id.String()
	}
	spelling := c.query.Text("title")
	if c.query.Given("title") && filter != (NovelFilter{Limit: filter.Limit}) {
		c.query.Refuse("title", "finds one novel: it cannot be combined with another filter")
	}
	return paginate(c, novelList, limit, func(n *Novel) string { return n.FoldedTitle }, func() ([]Novel, error) {
		if !c.query.Given("title") {
			return c.staff.ListNovels(ctx, filter)
		}
		found, err := c.staff.Novel(ctx, spelling)
		if errors.Is(err, ErrNovelNotFound) {
			return []Novel{}, nil
		}
		return []Novel{found}, err
	})
}

func showNovel(ctx context.Context, c *call) (*web.Answer, error) {
	return answer(c.staff.NovelWithHistory(ctx, c.id))
}
