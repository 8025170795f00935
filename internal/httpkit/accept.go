package httpkit

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// Accepts reports whether a request accepts a media type without parameters, such as text/html. The most specific
// matching media range of the Accept header decides: weight 0 rejects the type. A request without an Accept header
// accepts every type (RFC 9110, section 12.5.1).
func Accepts(r *http.Request, mediaType string) bool {
	header := strings.Join(r.Header.Values("Accept"), ",")
	if strings.TrimSpace(header) == "" {
		return true
	}
	_, taken := covers(header, mediaType)
	return taken
}

// Names reports whether the Accept header of a request lists a media type itself, with a weight above 0. A wildcard
// such as */* does not count.
func Names(r *http.Request, mediaType string) bool {
	closest, taken := covers(strings.Join(r.Header.Values("Accept"), ","), mediaType)
	return closest == named && taken
}

// named is the specificity of a media range without wildcards.
const named = 3

// covers returns the specificity of the most specific media range in an Accept header that matches a media type, 0 if
// none matches, and whether that range accepts the type.
func covers(header, mediaType string) (closest int, taken bool) {
	kind, _, _ := strings.Cut(mediaType, "/")
	for part := range strings.SplitSeq(header, ",") {
		accepted, parameters, err := mime.ParseMediaType(part)
		if err != nil {
			continue // a malformed range matches nothing
		}
		specificity := map[string]int{mediaType: named, kind + "/*": 2, "*/*": 1}[accepted]
		if specificity <= closest {
			continue
		}
		closest, taken = specificity, true
		if weight, err := strconv.ParseFloat(parameters["q"], 64); err == nil && weight <= 0 {
			taken = false
		}
	}
	return closest, taken
}
