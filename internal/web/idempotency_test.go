package web_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"novelgate/internal/problem"
	"novelgate/internal/web"
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
		got, err := web.IdempotencyKey(header(value))
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
		got, err := web.IdempotencyKey(h)
		if err == nil {
			t.Errorf("%s: accepted as %q", name, got)
			continue
		}
		if !errors.Is(err, problem.New(problem.CodeInvalidIdempotencyKey, "")) || got != "" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func FuzzIdempotencyKey(f *testing.F) {
	for _, seed := range []string{"evt-1", `"a\"b"`, `"`, " a ", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, err := web.IdempotencyKey(header(value))
		if err != nil {
			if !errors.Is(err, problem.New(problem.CodeInvalidIdempotencyKey, "")) {
				t.Errorf("%q: %v", value, err)
			}
			return
		}
		if len(key) < 1 || len(key) > 255 ||
			strings.Trim(key,
				"!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~") != "" {
			t.Errorf("%q gives %q", value, key)
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		if again, err := web.IdempotencyKey(header(quoted)); err != nil || again != key {
			t.Errorf("%q is %q, but quoted %q, %v", value, key, again, err)
		}
	})
}
