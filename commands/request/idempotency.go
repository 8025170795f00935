package request

import (
	"net/http"
	"strings"

	"novelgate/commands/problem"
)

// IdempotencyKeyHeader is the name of the header that both operations require.
const IdempotencyKeyHeader = "Idempotency-Key"

// MaxKey is the greatest length of a key in bytes.
const MaxKey = 255

// ParseIdempotencyKey returns the key of a request: 1 to 255 bytes of visible ASCII
// (0x21 to 0x7E). A value in double quotes is a string of RFC 8941, as in the IETF
// draft of the header, and is unwrapped; "abc" and abc are the same key. A quote at
// one end alone is malformed. A comma is a character like any other, but the header
// may occur once only. The error is a *problem.Error with the code
// invalid_idempotency_key.
func ParseIdempotencyKey(h http.Header) (string, error) {
	values := h.Values(IdempotencyKeyHeader)
	switch len(values) {
	case 0:
		return "", problem.InvalidIdempotencyKey("The Idempotency-Key header is missing.")
	case 1:
	default:
		return "", problem.InvalidIdempotencyKey("The Idempotency-Key header must occur once, but is repeated.")
	}
	key := strings.Trim(values[0], " \t")
	if strings.HasPrefix(key, `"`) || strings.HasSuffix(key, `"`) {
		unwrapped, ok := unwrap(key)
		if !ok {
			return "", problem.InvalidIdempotencyKey(
				`The Idempotency-Key header is not a complete quoted string: a quote or a backslash inside is written \" or \\.`)
		}
		key = unwrapped
	}
	switch {
	case key == "":
		return "", problem.InvalidIdempotencyKey("The Idempotency-Key header is empty.")
	case len(key) > MaxKey:
		return "", problem.InvalidIdempotencyKey("The Idempotency-Key header must have at most 255 bytes, got " +
			thousands(len(key)) + ".")
	}
	for i := range len(key) {
		if key[i] < 0x21 || key[i] > 0x7E {
			return "", problem.InvalidIdempotencyKey(
				"The Idempotency-Key header must be visible ASCII (0x21 to 0x7E), without spaces.")
		}
	}
	return key, nil
}

// unwrap reads a string of RFC 8941, section 4.2.5, that is the whole of s.
func unwrap(s string) (string, bool) {
	if len(s) < 2 || s[0] != '"' {
		return "", false
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), i == len(s)-1
		case '\\':
			if i++; i == len(s) || (s[i] != '"' && s[i] != '\\') {
				return "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", false
}
