package admin

import (
	"context"
	"net/http"
	"path"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/commands/request"
	"novelgate/commands/staff"
	"novelgate/internal/httpkit"
	"novelgate/internal/title"
)

// decision is the body of requests with a reason only, such as approve, reject and publish.
type decision struct {
	Reason string `json:"reason"`
}

func (*decision) members() []string { return []string{"reason"} }

func (d *decision) read(o *httpkit.Object) { d.Reason, _ = o.Text("reason", false) }

// rejection is the body of POST /api/admin/novels/reject.
type rejection struct {
	Novel  string `json:"novel"`
	Reason string `json:"reason"`
}

func (*rejection) members() []string { return []string{"novel", "reason"} }

func (r *rejection) read(o *httpkit.Object) {
	r.Novel, _ = o.Text("novel", false)
	r.Reason, _ = o.Text("reason", false)
}

// canonical implements normalised: titles are compared in their folded form.
func (r *rejection) canonical() any { return rejection{title.Fold(r.Novel), r.Reason} }

// publishTitle publishes a known or unknown title, with the fields of the body.
func publishTitle(ctx context.Context, c *call) (*output, error) {
	if err := c.deliver("novels/publish"); err != nil {
		return nil, err
	}
	if c.bodyErr != nil {
		return nil, c.bodyErr
	}
	body, err := request.DecodePublication(c.body)
	if err != nil {
		return nil, err //nolint:wrapcheck // already a problem
	}
	c.staff.Delivery.Canonical = body.Canonical()
	published, err := c.staff.PublishNovelWith(ctx, body.Title, fields(body), body.Reason)
	return c.novelOutput(ctx, published, err, http.StatusCreated)
}

// editNovel changes fields of a canonical novel.
func editNovel(ctx context.Context, c *call) (*output, error) {
	id, err := c.id("novelId")
	if err != nil {
		return nil, err
	}
	if c.bodyErr != nil {
		return nil, c.bodyErr
	}
	body, err := request.DecodeEdit(c.body)
	if err != nil {
		return nil, err //nolint:wrapcheck // already a problem
	}
	edited, err := c.staff.EditNovel(ctx, id, fields(body), body.Reason)
	return &output{status: http.StatusOK, body: edited}, err
}

func fields(n request.StaffNovel) novel.Fields {
	return novel.Fields{
		Author: n.Author, Synopsis: n.Synopsis, CoverURL: n.CoverURL, Language: n.Language, ReadingStatus: n.ReadingStatus,
		Genres: n.Genres,
	}
}

// rejectTitle rejects a known or unknown title.
func rejectTitle(ctx context.Context, c *call) (*output, error) {
	if err := c.deliver("novels/reject"); err != nil {
		return nil, err
	}
	var body rejection
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	rejected, err := c.staff.RejectNovel(ctx, body.Novel, body.Reason)
	return c.novelOutput(ctx, rejected, err, http.StatusOK)
}

// moderate returns the operation that moves a novel to another state.
func moderate(
	command func(s *staff.Staff, ctx context.Context, id uuid.UUID, reason string) (staff.Novel, error),
) operation {
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
		moved, err := command(c.staff, ctx, id, body.Reason)
		return c.novelOutput(ctx, moved, err, http.StatusOK)
	}
}

// novelOutput returns the response with the current state of a novel. A retry gets 200.
func (c *call) novelOutput(ctx context.Context, n staff.Novel, err error, status int) (*output, error) {
	return commandOutput(status, n, err, func(before *staff.ReplayedError) (staff.Novel, error) {
		return c.staff.NovelByID(ctx, before.StreamID)
	})
}

func listNovels(ctx context.Context, c *call) (*output, error) {
	limit := c.limit()
	filter := staff.NovelFilter{
		State: novel.State(c.query.OneOf("state", string(novel.Pending), string(novel.Approved), string(novel.Published),
			string(novel.Rejected), string(novel.Free))),
		Owner: c.query.Text("owner"), Text: c.query.Text("text"), After: c.textCursor(novelList), Limit: limit + 1,
	}
	switch filter.Owner {
	case "", staff.Host, staff.NoOwner:
	default:
		id, err := uuid.Parse(filter.Owner)
		if err != nil {
			c.query.Refuse("owner", `must be the id of an integration, "host" or "none"`)
		}
		filter.Owner = id.String()
	}
	if err := c.query.Err(); err != nil {
		return nil, err //nolint:wrapcheck // already a problem
	}
	found, err := c.staff.ListNovels(ctx, filter)
	if err != nil {
		return nil, err
	}
	return paginate(novelList, found, limit, byTitle)
}

// novelWithHistory is a novel with its events.
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

// moderatePost returns the operation that hides or restores a post.
func moderatePost(
	command func(s *staff.Staff, ctx context.Context, id uuid.UUID, reason string) (staff.Post, error),
) operation {
	return func(ctx context.Context, c *call) (*output, error) {
		id, err := c.id("postId")
		if err != nil {
			return nil, err
		}
		if err := c.deliver("posts/" + id.String() + "/" + path.Base(c.URL.Path)); err != nil {
			return nil, err
		}
		var body decision
		if err := c.decode(&body); err != nil {
			return nil, err
		}
		moved, err := command(c.staff, ctx, id, body.Reason)
		return commandOutput(http.StatusOK, moved, err, func(*staff.ReplayedError) (staff.Post, error) {
			return c.staff.Post(ctx, id)
		})
	}
}

func showPost(ctx context.Context, c *call) (*output, error) {
	id, err := c.id("postId")
	if err != nil {
		return nil, err
	}
	found, err := c.staff.Post(ctx, id)
	return &output{status: http.StatusOK, body: found}, err
}
