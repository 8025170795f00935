package answer

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// Accepts reports whether a request takes an answer of a media type without parameters, such as text/html: the most specific media range of its
// Accept that covers the type has not the weight 0, or it has no Accept at all (RFC 9110, section 12.5.1).
func Accepts(r *http.Request, mediaType string) bool {
	header := strings.Join(r.Header.Values("Accept"), ",")
	if strings.TrimSpace(header) == "" {
		return true
	}
	kind, _, _ := strings.Cut(mediaType, "/")
	closest, taken := 0, false
	for part := range strings.SplitSeq(header, ",") {
		accepted, parameters, err := mime.ParseMediaType(part)
		if err != nil {
			continue // what nobody can read covers nothing
		}
		specificity := map[string]int{mediaType: 3, kind + "/*": 2, "*/*": 1}[accepted]
		if specificity <= closest {
			continue
		}
		closest, taken = specificity, true
		if weight, err := strconv.ParseFloat(parameters["q"], 64); err == nil && weight <= 0 {
			taken = false
		}
	}
	return taken
}
