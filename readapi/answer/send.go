// Package answer sends what was read: with its validator and how long it may be kept, or the problem that came up.
package answer

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
)

// caching lets browsers and proxies keep an answer for a few seconds: so long may a comment that staff hid still be
// seen.
const caching = "public, max-age=5"

// Send answers with body, or with 304 when the client has it already. The ETag is a digest of the bytes, the same on
// all replicas, and a weak one, because what Compress makes of them has it too.
func Send(w http.ResponseWriter, r *http.Request, contentType string, body []byte) {
	digest := sha256.Sum256(body)
	var quoted [4 + 22]byte // 128 bits of it
	copy(quoted[:], weak+`"`)
	quoted[len(quoted)-1] = '"'
	base64.RawURLEncoding.Encode(quoted[len(weak)+1:], digest[:16])
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

// weak begins a weak tag.
const weak = "W/"

// matches reports whether If-None-Match holds the tag, by weak comparison (RFC 9110, section 13.1.2).
func matches(header []string, tag string) bool {
	tag = strings.TrimPrefix(tag, weak)
	for _, line := range header {
		for candidate := range strings.SplitSeq(line, ",") {
			candidate = strings.TrimSpace(candidate)
			if candidate == "*" || strings.TrimPrefix(candidate, weak) == tag {
				return true
			}
		}
	}
	return false
}
