package web

import (
	"net/http"
	"regexp"
	"strings"

	"novelgate/internal/problem"
)

// MaxKey is the greatest length of a key in bytes.
const MaxKey = 255

// IdempotencyKey returns the key of a request, parsed by ParseKey. A repeated header is refused. The error is a
// *problem.Error with the code invalid_idempotency_key.
func IdempotencyKey(h http.Header) (string, error) {
	var wrong string
	switch values := h.Values("Idempotency-Key"); len(values) {
	case 0:
		wrong = "is missing"
	case 1:
		var key string
		if key, wrong = ParseKey(values[0]); wrong == "" {
			return key, nil
		}
	default:
		wrong = "must occur once, but is repeated"
	}
	return "", problem.InvalidIdempotencyKey("The Idempotency-Key header " + wrong + ".")
}

// ParseKey reads a key: 1 to 255 bytes of visible ASCII (0x21 to 0x7E). A value in double quotes is a string of RFC
// 8941, as in the IETF draft of the header, and is unwrapped; "abc" and abc are the same key. A double quote at one end
// only is malformed. Blanks around the key are trimmed. A comma has no special meaning. wrong is the error text without
// its subject, "" for a valid key.
func ParseKey(sent string) (key, wrong string) {
	key = strings.Trim(sent, " \t")
	if strings.HasPrefix(key, `"`) || strings.HasSuffix(key, `"`) {
		if !quotedString.MatchString(key) {
			return "", `is not a complete quoted string: a quote or a backslash inside is written \" or \\`
		}
		key = unescape.Replace(key[1 : len(key)-1])
	}
	switch {
	case key == "":
		return "", "is empty"
	case len(key) > MaxKey:
		return "", "must have at most 255 bytes, got " + Thousands(len(key))
	}
	for i := range len(key) {
		if key[i] < 0x21 || key[i] > 0x7E {
			return "", "must be visible ASCII (0x21 to 0x7E), without spaces"
		}
	}
	return key, ""
}

// A string of RFC 8941, section 4.2.5, and its two escapes. The bytes inside are checked after unwrapping.
var (
	quotedString = regexp.MustCompile(`^"(?s:[^"\\]|\\["\\])*"$`)
	unescape     = strings.NewReplacer(`\"`, `"`, `\\`, `\`)
)
