package commands

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/novel"
	"novelgate/commands/request"
)

// resolveResponse is the response with the outcome that an upsert of the same body would have now.
type resolveResponse struct {
	Rule        string     `json:"rule"`
	FoldedTitle string     `json:"foldedTitle"`
	NovelID     *uuid.UUID `json:"novelId"` // nil, as the two below, when the title is unknown
	Slug        *string    `json:"slug"`
	URL         *string    `json:"url"`
	NearTitles  []string   `json:"nearTitles"` // nearest first; none when the title is known
}

// Rules of a resolution. Pending is the rule for a new novel of an integration under review, and for its own pending
// novels.
const (
	ruleCreate    = "create"
	ruleUpdate    = "update"
	ruleCanonical = "canonical"
	ruleForeign   = "foreign"
	ruleRejected  = "rejected"
	rulePending   = "pending"
)

//go:embed title.sql
var titleSQL string

func (a *API) resolveRoute() *route {
	return &route{
		method: http.MethodPost, path: "/api/integrations/resolve", maxBody: maxBody, handle: a.resolve,
		allowed: mayCreateNovels, missing: missingNovels,
	}
}

// resolve handles POST /api/integrations/resolve: an upsert without its effects. It refuses a request that an upsert
// refuses.
func (a *API) resolve(ctx context.Context, in *input) (*output, error) {
	body, err := request.DecodeNovel(in.body)
	if err != nil {
		return nil, err //nolint:wrapcheck // already a problem
	}
	n, err := queryRow(ctx, a.Records, titleSQL, []any{body.FoldedTitle},
		func(row pgx.CollectableRow) (n novel.Novel, err error) {
			err = row.Scan(&n.ID, &n.Slug, &n.State, &n.OwnerID, &n.Version)
			return n, err
		})
	response := resolveResponse{FoldedTitle: body.FoldedTitle}
	switch {
	case errors.Is(err, pgx.ErrNoRows) || err == nil && !n.Exists():
		response.NearTitles, err = a.nearTitles(ctx, body.FoldedTitle)
		if err != nil {
			return nil, err
		}
	case err != nil:
		return nil, fmt.Errorf("resolve title: %w", err)
	default:
		url := a.Addresses.Novel(n.Slug)
		response.NovelID, response.Slug, response.URL = &n.ID, &n.Slug, &url
	}
	response.Rule, err = ruleFor(n, novel.Upsert{IntegrationID: in.IntegrationID, Review: in.Review, Title: body.Title})
	if err != nil {
		return nil, err
	}
	return &output{status: http.StatusOK, body: response}, nil
}

// ruleFor returns the rule that applies, decided by the aggregate as for the command itself.
func ruleFor(n novel.Novel, cmd novel.Upsert) (string, error) {
	outcome, event, err := n.Upsert(cmd)
	switch {
	case errors.Is(err, novel.ErrRejected):
		return ruleRejected, nil
	case err != nil:
		return "", fmt.Errorf("decide upsert: %w", err)
	case outcome == novel.Canonical:
		return ruleCanonical, nil
	case outcome == novel.Foreign:
		return ruleForeign, nil
	case n.Apply(event).State == novel.Pending:
		return rulePending, nil
	case outcome == novel.Created:
		return ruleCreate, nil
	default:
		return ruleUpdate, nil
	}
}
