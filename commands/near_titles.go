package commands

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
	"github.com/jackc/pgx/v5"
)

// Bounds of the search for near titles.
const (
	maxNearTitles = 5
	nearOnASide   = 25 // of three spellings and one end, on two sides: no more than 200
)

//go:embed near.sql
var nearSQL string

// nearTitles returns public titles that differ little from a folded one, nearest first. It looks where titles with the
// same beginning are, with another article and without one, and where those with the same end are. So a slip is found
// wherever it is, but slips in the first and in the last letter at once are not.
func (a *API) nearTitles(ctx context.Context, folded string) ([]string, error) {
	spellings := nearSpellings(folded)
	prefixes := make([]string, len(spellings))
	for i, spelling := range spellings {
		_, size := utf8.DecodeRuneInString(spelling)
		prefixes[i] = spelling[:size]
	}
	rows, err := a.Records.Query(ctx, nearSQL, spellings, prefixes, nearOnASide)
	if err != nil {
		return nil, fmt.Errorf("find near titles: %w", err)
	}
	candidates, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c nearTitle, err error) {
		err = row.Scan(&c.folded, &c.title)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("find near titles: %w", err)
	}
	return nearest(folded, candidates), nil
}

type nearTitle struct {
	folded, title string
	distance      int // edits between the folded titles
}

// nearSpellings returns a folded title, and what it is without its first word and behind an English article.
func nearSpellings(folded string) []string {
	spellings := []string{folded}
	if _, rest, ok := strings.Cut(folded, " "); ok && rest != "" {
		spellings = append(spellings, rest)
	}
	return append(spellings, "the "+folded)
}

// nearest returns the titles of those candidates that share more than half of their characters with a folded title.
func nearest(folded string, candidates []nearTitle) []string {
	length := utf8.RuneCountInString(folded)
	candidates = slices.DeleteFunc(candidates, func(c nearTitle) bool { return c.folded == folded })
	near := candidates[:0]
	for _, c := range candidates {
		other := utf8.RuneCountInString(c.folded)
		longer := max(length, other)
		if 2*(longer-min(length, other)) >= longer {
			continue // so many edits at least, and counting them exactly takes its time
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
