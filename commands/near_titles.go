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
	nearOnASide   = 25 // candidates before and after each of three spellings and one ending: at most 200
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

// nearSpellings returns a folded title, the same without its first word, and the same with "the" in front.
func nearSpellings(folded string) []string {
	spellings := []string{folded}
	if _, rest, ok := strings.Cut(folded, " "); ok && rest != "" {
		spellings = append(spellings, rest)
	}
	return append(spellings, "the "+folded)
}

// nearest returns the candidates whose edit distance to a folded title is less than half of the longer title, nearest
// first.
func nearest(folded string, candidates []nearTitle) []string {
	length := utf8.RuneCountInString(folded)
	candidates = slices.DeleteFunc(candidates, func(c nearTitle) bool { return c.folded == folded })
	near := candidates[:0]
	for _, c := range candidates {
		other := utf8.RuneCountInString(c.folded)
		longer := max(length, other)
		if 2*(longer-min(length, other)) >= longer {
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
