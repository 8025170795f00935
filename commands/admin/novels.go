package admin

import (
	"context"
	"errors"
	"net/http"
	"path"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/commands/problem"
	"novelgate/commands/staff"
)

// decision is the body of approve, reject and publish.
type decision struct {
	Reason string `json:"reason"`
}

// publication is the body of POST /api/admin/novels.
type publication struct {
	Novel  string `json:"novel"`
	Reason string `json:"reason"`
}

// publishTitle makes a title canonical, whether it is known or not.
func publishTitle(ctx context.Context, c *call) (*output, error) {
	if err := c.deliver("novels/publish"); err != nil {
		return nil, err
	}
	var body publication
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	published, err := c.staff.PublishNovel(ctx, body.Novel, body.Reason)
	return c.answerNovel(ctx, published, err, http.StatusCreated)
}

// moderate returns the operation that moves a novel to another state.
func moderate(command func(s *staff.Staff, ctx context.Context, title, reason string) (staff.Novel, error)) operation {
	return func(ctx context.Context, c *call) (*output, error) {
		id, err := c.id("novelId")
		if err != nil {
			return nil, err
		}
		if err := c.deliver("novels/" + id.String() + "/" + path.Base(c.URL.Path)); err != nil {
			return nil, err
		}
		var body decision
		if err := c.decode(&body); err != nil {
			return nil, err
		}
		found, err := c.staff.NovelByID(ctx, id)
		if err != nil {
			return nil, err
		}
		moved, err := command(c.staff, ctx, found.Title, body.Reason)
		return c.answerNovel(ctx, moved, err, http.StatusOK)
	}
}

// answerNovel answers with a novel as it is now; a command that was carried out before is answered with 200.
func (c *call) answerNovel(ctx context.Context, n staff.Novel, err error, status int) (*output, error) {
	var replayed *staff.ReplayedError
	if errors.As(err, &replayed) {
		n, err := c.staff.NovelByID(ctx, replayed.StreamID)
		return &output{status: http.StatusOK, body: n, replayed: true}, err
	}
	return &output{status: status, body: n}, err
}

func listNovels(ctx context.Context, c *call) (*output, error) {
	after, limit, err := c.cursorAndLimit()
	if err != nil {
		return nil, err
	}
	query := c.URL.Query()
	filter := staff.NovelFilter{State: novel.State(query.Get("state")), Text: query.Get("text"), After: after, Limit: limit + 1}
	switch filter.State {
	case "", novel.Pending, novel.Approved, novel.Published, novel.Rejected:
	default:
		return nil, problem.InvalidRequest(problem.FieldError{Field: "state", Message: "must be pending, approved, published or rejected"})
	}
	switch owner := query.Get("owner"); owner {
	case "":
	case staff.Host:
		filter.Owner.Valid = true
	default:
		id, err := uuid.Parse(owner)
		if err != nil {
			return nil, problem.InvalidRequest(problem.FieldError{Field: "owner", Message: `must be the id of an integration or "host"`})
		}
		filter.Owner = uuid.NullUUID{UUID: id, Valid: true}
	}
	found, err := c.staff.ListNovels(ctx, filter)
	if err != nil {
		return nil, err
	}
	return &output{status: http.StatusOK, body: paginate(found, limit, func(n staff.Novel) string { return n.Title })}, nil
}

// novelWithHistory is a novel and what happened to it.
type novelWithHistory struct {
	staff.Novel
	History []staff.HistoryEntry `json:"history"`
}

func showNovel(ctx context.Context, c *call) (*output, error) {
	id, err := c.id("novelId")
	if err != nil {
		return nil, err
	}
	found, err := c.staff.NovelByID(ctx, id)
	if err != nil {
		return nil, err
	}
	history, err := c.staff.NovelHistory(ctx, id)
	if err != nil {
		return nil, err
	}
	return &output{status: http.StatusOK, body: novelWithHistory{found, history}}, nil
}
