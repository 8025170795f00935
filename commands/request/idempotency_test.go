package request_test

import (
	"net/http"
	"strings"
	"testing"

	"novelgate/commands/request"
	"novelgate/internal/problem"
)

func header(values ...string) http.Header {
	h := http.Header{}
	for _, v := range values {
		h.Add("idempotency-key", v)
	}
	return h
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"evt-1":                               "evt-1",
		" evt-1\t":                            "evt-1",
		`"evt-1"`:                             "evt-1",
		`"a\"b\\c"`:                           `a"b\c`,
		`"\"a\""`:                             `"a"`,
		`a"b`:                                 `a"b`,
		`a\b`:                                 `a\b`,
		"a,b":                                 "a,b",
		"!~":                                  "!~",
		strings.Repeat("k", 255):              strings.Repeat("k", 255),
		`"` + strings.Repeat("k", 255) + `"`:  strings.Repeat("k", 255),
		`"` + strings.Repeat(`\\`, 255) + `"`: strings.Repeat(`\`, 255),
	} {
		got, err := request.IdempotencyKey(header(value))
		if err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", value, got, err, want)
		}
	}
	for name, h := range map[string]http.Header{
		"missing":               {},
		"empty":                 header(""),
		"blank":                 header(" \t"),
		"empty string":          header(`""`),
		"repeated":              header("a", "a"),
		"too long":              header(strings.Repeat("k", 256)),
		"too long unwrapped":    header(`"` + strings.Repeat("k", 256) + `"`),
		"space":                 header("a b"),
		"space in quotes":       header(`"a b"`),
		"tab":                   header("a\tb"),
		"control":               header("a\x01"),
		"DEL":                   header("a\x7f"),
		"not ASCII":             header("é"),
		"not ASCII in quotes":   header(`"é"`),
		"lone quote":            header(`"`),
		"opening quote":         header(`"a`),
		"closing quote":         header(`a"`),
		"quote inside":          header(`"a"b"`),
		"parameters":            header(`"a";p=1`),
		"two strings":           header(`"a","b"`),
		"escape of other":       header(`"a\b"`),
		"escape of the last":    header(`"a\"`),
		"escape before the end": header(`"\`),
	} {
		got, err := request.IdempotencyKey(h)
		if err == nil {
			t.Errorf("%s: accepted as %q", name, got)
			continue
		}
		if p := refusal(t, err); p.Code != problem.CodeInvalidIdempotencyKey || got != "" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestParentKeys: parent_uuid has every spelling of a key that the header has. Any other text is kept.
func TestParentKeys(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]string{
		`evt-1`: "evt-1", `\"evt-1\"`: "evt-1", ` evt-1\t`: "evt-1", `\"a\\\"b\"`: `a"b`,
		`\"evt-1`: `"evt-1`, `two words`: "two words", ``: "",
	} {
		p, err := request.DecodePost([]byte(post(`"parent_uuid":"`+sent+`"`)), received)
		if err != nil || *p.ParentKey != want {
			t.Errorf("%s: %v, %v", sent, p.ParentKey, err)
		}
	}
}
