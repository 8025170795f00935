package web

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// AcceptsByName reports whether the Accept header of a request lists a media type itself, with a weight above 0. A
// wildcard such as */* does not count.
func AcceptsByName(r *http.Request, mediaType string) bool {
	return accepts(r.Header, "Accept", mediaType)
}

func accepts(h http.Header, header, want string) bool {
	for part := range strings.SplitSeq(strings.Join(h.Values(header), ","), ",") {
		if name, parameters, err := mime.ParseMediaType(part); err == nil && name == want {
			weight, err := strconv.ParseFloat(parameters["q"], 64)
			return err != nil || weight > 0
		}
	}
	return false
}
