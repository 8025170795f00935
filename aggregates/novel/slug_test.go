package novel_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/aggregates/novel"
)

func TestSlug(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("0123abcd-0000-5000-8000-000000000000")
	for name, c := range map[string]struct {
		spelled string
		taken   []string
		want    string
	}{
		"free":             {"genji", nil, "genji"},
		"taken":            {"genji", []string{"genji"}, "genji-0123abcd"},
		"taken twice":      {"genji", []string{"genji", "genji-0123abcd"}, "genji-0123abcd-0000-5000-8000-000000000000"},
		"nothing to spell": {"", nil, "novel-0123abcd"},
		"nothing, taken":   {"", []string{"novel-0123abcd"}, "novel-0123abcd-0000-5000-8000-000000000000"},
		"all taken: last wins": {
			"",
			[]string{"novel-0123abcd", "novel-0123abcd-0000-5000-8000-000000000000"},
			"novel-0123abcd-0000-5000-8000-000000000000",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			taken := map[string]struct{}{}
			for _, slug := range c.taken {
				taken[slug] = struct{}{}
			}
			if diff := cmp.Diff(c.want, novel.PickSlug(novel.SlugCandidates(c.spelled, id), taken)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
