package web_test

import (
	"errors"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/internal/problem"
	"novelgate/internal/web"
)

// TestQuery refuses ambiguous parameters by name.
func TestQuery(t *testing.T) {
	t.Parallel()
	for query, tc := range map[string]struct {
		want  map[string]string
		wrong []string // fields
	}{
		"":                    {map[string]string{}, nil},
		"a=1&b=x%3By":         {map[string]string{"a": "1", "b": "x;y"}, nil},
		"a":                   {map[string]string{"a": ""}, nil},
		"a=x;y":               {nil, []string{"query"}},
		"a=%zz":               {nil, []string{"query"}},
		"a=1&a=1":             {nil, []string{"a"}},
		"c=1&a=%ff&b=1&b=%00": {nil, []string{"a", "b", "c"}},
		"%ff=1":               {nil, []string{"?"}},
	} {
		got, err := web.ReadStrictQuery(&url.URL{RawQuery: query}, "a", "b")
		var wrong []string
		if refused := new(problem.Error); errors.As(err, &refused) {
			for _, field := range refused.Fields {
				wrong = append(wrong, field.Field)
			}
		}
		if diff := cmp.Diff(tc.wrong, wrong); diff != "" {
			t.Errorf("%q: wrong (-want +got):\n%s", query, diff)
		}
		if err != nil {
			continue
		}
		if diff := cmp.Diff(tc.want, got.All()); diff != "" {
			t.Errorf("%q: (-want +got):\n%s", query, diff)
		}
	}
	if got, err := web.ReadQuery(&url.URL{RawQuery: "c=1"}); err != nil || got.Text("c") != "1" {
		t.Errorf("whatever there is: %v, %v", got, err)
	}
}
