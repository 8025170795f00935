// Package answer sends what was read: with its validator and how long it may be kept, or the problem that came up.
package answer

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
)

// caching lets browsers and proxies keep an answer for a few seconds: so long may a comment that staff hid still be seen.
const caching = "public, max-age=5"

// Send answers with body, or with 304 when the client has it already. The ETag is a strong one, a digest of the very bytes: all
// replicas give the same, and there is no other encoding of them.
func Send(w http.ResponseWriter, r *http.Request, contentType string, body []byte) {
	digest := sha256.Sum256(body)
	var quoted [2 + 22]byte // 128 bits of it
	quoted[0], quoted[len(quoted)-1] = '"', '"'
	base64.RawURLEncoding.Encode(quoted[1:], digest[:16])
	tag := string(quoted[:])

	h := w.Header()
	h.Set("Etag", tag)
	h.Set("Cache-Control", caching)
	h.Set("X-Content-Type-Options", "nosniff")
	if matches(r.Header.Values("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a failing connection is the client's affair
	}
}

// matches reports whether If-None-Match holds the tag, by weak comparison (RFC 9110, section 13.1.2).
func matches(header []string, tag string) bool {
	for _, line := range header {
		for candidate := range strings.SplitSeq(line, ",") {
			candidate = strings.TrimSpace(candidate)
			if candidate == "*" || strings.TrimPrefix(candidate, "W/") == tag {
				return true
			}
		}
	}
	return false
}
