package staff

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"novelgate/internal/problem"
	"novelgate/internal/web"
)

// moderatePost returns the operation that hides or restores a post.
func moderatePost(
	command func(s *Staff, ctx context.Context, id uuid.UUID, reason string) (Post, error),
) operation {
	return moderate(func(c *call) uuid.UUID { return c.id }, command, (*Staff).Post)
}

func showPost(ctx context.Context, c *call) (*web.Answer, error) {
	return answer(c.staff.Post(ctx, c.id))
}

// decisionBody is the body of POST /api/admin/posts/decisions.
type decisionBody struct {
	Decision string      `json:"decision"`
	PostIDs  []uuid.UUID `json:"postIds"`
	Reason   string      `json:"reason"`
}

// decidePosts decides about several posts.
func decidePosts(ctx context.Context, c *call, body decisionBody) (*web.Answer, error) {
	if _, known := postDecisions[body.Decision]; !known {
		return nil, problem.InvalidField("decision", "must be hide, restore or dismiss")
	}
	different := map[uuid.UUID]bool{}
	for _, id := range body.PostIDs {
		different[id] = true
	}
	if n := len(body.PostIDs); n < 1 || n > MaxDecided || len(different) < n {
		return nil, problem.InvalidField("postIds", fmt.Sprintf("must have 1 to %d different ids", MaxDecided))
	}
	decided, err := c.staff.DecidePosts(ctx, body.Decision, body.PostIDs, body.Reason)
	if err != nil {
		return nil, err
	}
	web.SetReplayed(c.Writer.Header(), decided.replayed, decided.mismatch)
	return &web.Answer{Body: decided}, nil
}

// ReadPostFilter reads the parameters of a list of posts, besides novel, from, to and limit. What is wrong is in q.Err.
func ReadPostFilter(q *web.Query) PostFilter {
	f := PostFilter{
		AuthorID: q.ID("author").UUID, IntegrationID: q.ID("integration").UUID,
		State: q.OneOf("state", OnlyVisible, OnlyHidden, OnlyReported, OnlyEdited, OnlyWithdrawn),
		Text:  q.Text("text"), Chapter: q.Text("chapter"), Sort: q.OneOf("sort", Newest, Waiting), Cursor: q.Text("cursor"),
	}
	if f.Chapter != "" && !IsChapter(f.Chapter) {
		q.Refuse("chapter", `must be a decimal number or "none"`)
	}
	return f
}

func listPosts(ctx context.Context, c *call) (*web.Answer, error) {
	q := c.query
	f := ReadPostFilter(q)
	f.NovelID, f.From, f.To, f.Limit = q.ID("novel").UUID, q.Time("from"), q.Time("to"), c.limit()
	if err := q.Err(); err != nil {
		return nil, err
	}
	page, err := c.staff.PostsPage(ctx, f)
	if err != nil {
		return nil, err
	}
	body := web.Page[ListedPost]{Items: page.Items}
	if page.Next != "" {
		body.NextCursor = &page.Next
	}
	return &web.Answer{Body: body}, nil
}

func showPostContext(ctx context.Context, c *call) (*web.Answer, error) {
	return answer(c.staff.PostContext(ctx, c.id))
}
