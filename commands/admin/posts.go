package admin

import (
	"context"
	"net/http"
	"path"

	"github.com/google/uuid"

	"novelgate/commands/staff"
)

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
