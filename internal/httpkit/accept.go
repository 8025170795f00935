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
	_, accepted := mostSpecific(header, mediaType)
	return accepted
}

// AcceptsByName reports whether the Accept header of a request lists a media type itself, with a weight above 0. A
// wildcard such as */* does not count.
func AcceptsByName(r *http.Request, mediaType string) bool {
	specificity, accepted := mostSpecific(strings.Join(r.Header.Values("Accept"), ","), mediaType)
	return specificity == named && accepted
}

// named is the specificity of a media range without wildcards.
const named = 3

// mostSpecific finds the most specific media range in an Accept header that matches a media type. It returns the
// specificity, 0 if no range matches, and whether the range accepts the type. A missing or malformed weight is 1.
func mostSpecific(header, mediaType string) (specificity int, accepted bool) {
	kind, _, _ := strings.Cut(mediaType, "/")
	for part := range strings.SplitSeq(header, ",") {
		mediaRange, parameters, err := mime.ParseMediaType(part)
		if err != nil {
			continue // a malformed range matches nothing
		}
		found := map[string]int{mediaType: named, kind + "/*": 2, "*/*": 1}[mediaRange]
		if found > specificity {
			weight, weightErr := strconv.ParseFloat(parameters["q"], 64)
			specificity, accepted = found, weightErr != nil || weight > 0
		}
	}
	return specificity, accepted
}
