package httpkit

import "net/http"

// maxFields is how many header fields a request may have. Browsers and proxies send about 30.
const maxFields = 64

// LimitFields refuses requests with more header fields than that with 431, before they wait for anything. net/http
// makes a map of the fields, which for short ones takes many times their bytes: 19 KB took a quarter of a megabyte.
func LimitFields(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fields := 0
		for _, values := range r.Header {
			if fields += len(values); fields > maxFields {
				r.Header = nil // net/http may still wait for the body
				leaveBody(w, r)
				w.Header().Set("Connection", "close")
				// As net/http refuses a header with too many bytes.
				const status = http.StatusRequestHeaderFieldsTooLarge
				http.Error(w, "431 "+http.StatusText(status), status)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
