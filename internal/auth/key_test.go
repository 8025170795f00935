package auth_test

import (
	"errors"
	"hash/crc32"
	"regexp"
	"strings"
	"testing"

	"novelgate/internal/auth"
)

// known is a key without its checksum; knownKey adds it.
const known = "ngp_0123456789ABCDEFGHIJKLMNOPQRST"

// knownKey implements the format a second time: CRC-32 (IEEE) in base 62.
func knownKey(body string) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	n := crc32.ChecksumIEEE([]byte(body))
	out := ""
	for range 6 {
		out = string(digits[n%62]) + out
		n /= 62
	}
	return body + out
}

func TestNew(t *testing.T) {
	t.Parallel()
	pattern := regexp.MustCompile(auth.KeyPattern)
	for _, kind := range []auth.Kind{auth.PartnerKey, auth.StaffKey, auth.AuditorKey, auth.SandboxKey} {
		seen := map[string]bool{}
		for range 200 {
			secret := auth.NewKey(kind)
			key := secret.Reveal()
			if seen[key] {
				t.Fatal("the same key twice")
			}
			seen[key] = true
			if key != knownKey(key[:34]) || len(key) != 40 || !strings.HasPrefix(key, string(kind)+"_") {
				t.Errorf("key %q does not have the documented form", key)
			}
			if pattern.FindString("key="+key+"\n") != key {
				t.Errorf("Pattern misses %q", key)
			}
			back, err := auth.ParseKey(key)
			if err != nil || back.Reveal() != key || back.Kind() != kind || back.Hash() != secret.Hash() {
				t.Errorf("Parse(%q) = %v, %v", key, back, err)
			}
		}
	}
}

// TestNewIsUniform counts characters: each of 62 is expected 968 times in 60,000 draws; modulo bias would give the
// first eight 25 % more.
func TestNewIsUniform(t *testing.T) {
	t.Parallel()
	count := map[rune]int{}
	for range 2000 {
		for _, c := range auth.NewKey(auth.PartnerKey).Reveal()[4:34] {
			count[c]++
		}
	}
	if len(count) != 62 {
		t.Errorf("%d different characters, want 62", len(count))
	}
	for c, n := range count {
		if n < 780 || n > 1160 { // six standard deviations
			t.Errorf("%q was drawn %d times, expected about 968", c, n)
		}
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                  "",
		"no such integration: \"Fan Site\"": "no such integration: \"Fan Site\"",
		"\"" + knownKey(known) + "\"":       "\"ngp_0123…\"",
		"ngs_" + known[4:] + "wrong1, again ngs_" + known[4:] + "wrong1": "ngs_0123…, again ngs_0123…",
	} {
		if got := auth.Redact(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	// Made with zlib.crc32 of Python.
	const key = "ngp_0123456789ABCDEFGHIJKLMNOPQRST2tMUGZ"
	if _, err := auth.ParseKey(key); err != nil {
		t.Fatalf("Parse(%q): %v", key, err)
	}
	bad := map[string]string{
		"empty":            "",
		"prefix alone":     "ngp_",
		"cut":              key[:39],
		"longer":           key + "0",
		"space before":     " " + key,
		"line break":       key + "\n",
		"unknown kind":     knownKey("ngx_" + known[4:]),
		"other separator":  knownKey("ngp-" + known[4:]),
		"upper-case kind":  knownKey("NGP_" + known[4:]),
		"outside alphabet": knownKey("ngp_-" + known[5:]),
		"not ASCII":        knownKey("ngp_é" + known[6:]),
		"kind exchanged":   "ngs" + key[3:],
	}
	for i := 4; i < len(key); i++ {
		bad["changed at "+key[:i]] = key[:i] + string(rune(key[i]^1)) + key[i+1:]
	}
	for name, s := range bad {
		secret, err := auth.ParseKey(s)
		if !errors.Is(err, auth.ErrMalformed) || secret.Reveal() != "" {
			t.Errorf("%s: Parse(%q) = %v, %v, want ErrMalformed", name, s, secret, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(knownKey(known))
	f.Add("ngp_")
	f.Add("nga_" + strings.Repeat("z", 36))
	f.Fuzz(func(t *testing.T, s string) {
		secret, err := auth.ParseKey(s)
		if err != nil {
			if err != auth.ErrMalformed { //nolint:errorlint // exactly this value: no wrapping error may contain a part of s
				t.Errorf("Parse(%q): %v", s, err)
			}
			return
		}
		if secret.Reveal() != s || s != knownKey(s[:34]) {
			t.Errorf("Parse(%q) accepts what New would not make", s)
		}
	})
}
