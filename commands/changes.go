package commands

import (
	"context"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/commands/committer"
	"novelgate/commands/request"
	"novelgate/internal/problem"
	"novelgate/internal/web"
)

// ChangeAnswer is the body of the answer to an edit, a withdrawal or a report.
type ChangeAnswer struct {
	PostID   uuid.UUID `json:"postId"`
	URL      string    `json:"url"`
	Applied  bool      `json:"applied"` // false for an edit when a later one is on record
	Warnings []Warning `json:"warnings,omitempty"`
}

// NewChangeAnswer returns the answer to a change whose body has unknown members.
func NewChangeAnswer(addresses web.Addresses, unknown []string, result *committer.Result) ChangeAnswer {
	return ChangeAnswer{
		PostID: result.PostID, URL: addresses.Post(result.Slug, result.PostID), Applied: !result.Superseded,
		Warnings: unknownMembers(unknown),
	}
}

// change executes a change of the comment with the key in the path.
func (a *API) change(
	ctx context.Context, c *call, unknown []string, newCommand func(comment string) *committer.Command,
) (_ *answer, result committer.Result, err error) {
	comment, wrong := web.ParseKey(mux.Vars(c.Request)["idempotencyKey"])
	if wrong != "" {
		return nil, result, problem.New(problem.CodeInvalidIdempotencyKey, "The idempotency key in the path "+wrong+".")
	}
	if result, err = a.Committer.Execute(ctx, newCommand(comment)); err != nil {
		return nil, result, err
	}
	return &answer{Body: NewChangeAnswer(a.Addresses, unknown, &result)}, result, nil
}

// editPost handles PATCH /api/integrations/posts/{idempotencyKey}.
func (a *API) editPost(
	ctx context.Context, c *call, caller committer.Caller,
) (_ *answer, result committer.Result, err error) {
	body, err := request.DecodeEditedPost(c.Body, c.ReceivedAt)
	if err != nil {
		return nil, result, err
	}
	return a.change(ctx, c, body.Unknown, func(comment string) *committer.Command {
		return committer.NewEditPost(caller, c.Key, comment, &body)
	})
}

// withdrawPost handles DELETE /api/integrations/posts/{idempotencyKey}.
func (a *API) withdrawPost(
	ctx context.Context, c *call, caller committer.Caller,
) (_ *answer, result committer.Result, err error) {
	return a.change(ctx, c, nil, func(comment string) *committer.Command {
		return committer.NewWithdrawPost(caller, c.Key, comment)
	})
}

// reportPost handles POST /api/integrations/posts/{idempotencyKey}/reports.
func (a *API) reportPost(
	ctx context.Context, c *call, caller committer.Caller,
) (_ *answer, result committer.Result, err error) {
	body, err := request.DecodeReport(c.Body)
	if err != nil {
		return nil, result, err
	}
	return a.change(ctx, c, body.Unknown, func(comment string) *committer.Command {
		return committer.NewReportPost(caller, c.Key, comment, &body)
	})
}
