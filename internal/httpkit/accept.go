package httpkit

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// Accepts reports whether a request takes an answer of a media type without parameters, such as text/html: the most
// specific media range of its Accept that covers the type has not the weight 0, or it has no Accept at all (RFC 9110,
// section 12.5.1).
func Accepts(r *http.Request, mediaType string) bool {
	header := strings.Join(r.Header.Values("Accept"), ",")
	if strings.TrimSpace(header) == "" {
		return true
	}
	_, taken := covers(header, mediaType)
	return taken
}

// Names reports whether a request takes a media type, as Accepts does, and its Accept names it: a range such as */*
// does not.
func Names(r *http.Request, mediaType string) bool {
	closest, taken := covers(strings.Join(r.Header.Values("Accept"), ","), mediaType)
	return closest == named && taken
}

// named is the specificity of a media range that is the type itself.
const named = 3

// covers returns how specific the media range of an Accept is that covers a type best, 0 when none does, and whether
// the type is taken.
func covers(header, mediaType string) (closest int, taken bool) {
	kind, _, _ := strings.Cut(mediaType, "/")
	for part := range strings.SplitSeq(header, ",") {
		accepted, parameters, err := mime.ParseMediaType(part)
		if err != nil {
			continue // what nobody can read covers nothing
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
