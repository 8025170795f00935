package commands

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/novel"
	"novelgate/commands/request"
	"novelgate/internal/database"
)

// resolveResponse is the response with the outcome that an upsert of the same body would have now.
type resolveResponse struct {
	Rule        string     `json:"rule"`
	FoldedTitle string     `json:"foldedTitle"`
	NovelID     *uuid.UUID `json:"novelId"` // nil, as the two below, when the title is unknown or free
	Slug        *string    `json:"slug"`
	URL         *string    `json:"url"`
	NearTitles  []string   `json:"nearTitles"` // nearest first; none when novelId is given
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

// Limits of the search for near titles.
const (
	maxNearTitles     = 5
	candidatesPerSide = 25 // candidates before and after each of three spellings and one ending: at most 200
)

//go:embed near.sql
var nearSQL string

// nearTitles returns public titles similar to a folded title, nearest first. Candidates are the titles with a similar
// beginning, also with "the" added or the first word removed, and those with a similar ending. It misses titles that
// differ both in the first and in the last letters.
func (a *API) nearTitles(ctx context.Context, folded string) ([]string, error) {
	spellings := nearSpellings(folded)
	prefixes := make([]string, len(spellings))
	for i, spelling := range spellings {
		_, size := utf8.DecodeRuneInString(spelling)
		prefixes[i] = spelling[:size]
	}
	candidates, err := database.Collect(ctx, a.DB, "near titles",
		func(row pgx.CollectableRow) (c nearTitle, err error) {
			err = row.Scan(&c.folded, &c.title)
			return c, err
		}, nearSQL, spellings, prefixes, candidatesPerSide)
	return nearest(folded, candidates), err
}

type nearTitle struct {
	folded, title string
	distance      int // edits between the folded titles
}

// nearSpellings returns a folded title, the same without its first word, and the same with "the" in front.
func nearSpellings(folded string) []string {
	spellings := []string{folded}
	if _, rest, ok := strings.Cut(folded, " "); ok && rest != "" {
		spellings = append(spellings, rest)
	}
	return append(spellings, "the "+folded)
}

// nearest returns up to maxNearTitles candidates, nearest first. Their edit distance to the folded title is less than
// half the length of the longer title.
func nearest(folded string, candidates []nearTitle) []string {
	length := utf8.RuneCountInString(folded)
	near := candidates[:0]
	for _, c := range candidates {
		other := utf8.RuneCountInString(c.folded)
		longer := max(length, other)
		if c.folded == folded || 2*(longer-min(length, other)) >= longer {
			continue // The difference of lengths is a lower bound of the edit distance, which is slow to compute.
		}
		if c.distance = levenshtein.ComputeDistance(folded, c.folded); 2*c.distance < longer {
			near = append(near, c)
		}
	}
	slices.SortFunc(near, func(x, y nearTitle) int {
		return cmp.Or(cmp.Compare(x.distance, y.distance), cmp.Compare(x.folded, y.folded))
	})
	titles := make([]string, 0, maxNearTitles)
	for _, c := range near[:min(len(near), maxNearTitles)] {
		titles = append(titles, c.title)
	}
	return titles
}
