package commands

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/novel"
	"novelgate/commands/request"
)

// resolveResponse is the response with the outcome that an upsert of the same body would have now.
type resolveResponse struct {
	Rule        string     `json:"rule"`
	FoldedTitle string     `json:"foldedTitle"`
	NovelID     *uuid.UUID `json:"novelId"` // nil, as slug and url, when the title is unknown or free
	Slug        *string    `json:"slug"`
	URL         *string    `json:"url"`
}

//go:embed title.sql
var titleSQL string

// resolve handles POST /api/integrations/resolve: the decision of an upsert without its effects. It refuses an invalid
// body as an upsert does. A rejected title is not refused: the response names the rule.
func (a *API) resolve(ctx context.Context, c *call) (*answer, error) {
	body, err := request.DecodeNovel(c.Body)
	if err != nil {
		return nil, err
	}
	var n novel.Novel
	err = a.DB.QueryRow(ctx, titleSQL, body.FoldedTitle).Scan(&n.ID, &n.Slug, &n.State, &n.OwnerID, &n.Version)
	response := resolveResponse{FoldedTitle: body.FoldedTitle}
	switch {
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return nil, fmt.Errorf("resolve title: %w", err)
	case n.Exists():
		url := a.Addresses.Novel(n.Slug)
		response.NovelID, response.Slug, response.URL = &n.ID, &n.Slug, &url
	}
	response.Rule, err = ruleFor(n, novel.Upsert{
		IntegrationID: c.Caller.IntegrationID, Review: c.Caller.Review, Title: body.Title,
	})
	if err != nil {
		return nil, err
	}
	return &answer{Body: response}, nil
}

// ruleFor returns the rule that applies to an upsert of a novel. The aggregate decides, as it does for the command.
// Pending is the rule for a new novel of an integration under review, and for its own pending novels.
func ruleFor(n novel.Novel, cmd novel.Upsert) (string, error) {
	outcome, event, err := n.Upsert(cmd)
	switch {
	case errors.Is(err, novel.ErrRejected):
		return "rejected", nil
	case err != nil:
		return "", fmt.Errorf("decide upsert: %w", err)
	case outcome == novel.Canonical:
		return "canonical", nil
	case outcome == novel.Foreign:
		return "foreign", nil
	case n.Apply(event).State == novel.Pending:
		return "pending", nil
	case outcome == novel.Created:
		return "create", nil
	default:
		return "update", nil
	}
}
