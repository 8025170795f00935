package httpkit

import (
	"net/http"
	"strings"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/internal/problem"
)

// NotFound answers a request for an unknown path.
func (k *Kit) NotFound(w http.ResponseWriter, r *http.Request) { k.Fail(w, r, problem.NotFound()) }

// MethodNotAllowed answers a request whose path exists only for other methods, and lists them.
func (k *Kit) MethodNotAllowed(router *mux.Router) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, method := range []string{
			http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		} {
			other := r.Clone(r.Context())
			other.Method = method
			if match := new(mux.RouteMatch); router.Match(other, match) && match.MatchErr == nil {
				allowed = append(allowed, method)
			}
		}
		k.Fail(w, r, problem.MethodNotAllowed(allowed...))
	})
}

// PathID returns a UUID in the path. The error is a *problem.Error.
func PathID(r *http.Request, name string) (uuid.UUID, error) {
	id, err := uuid.Parse(mux.Vars(r)[name])
	if err != nil {
		return uuid.Nil, problem.NotFound().WithDetail("The " + name + " in the address is not a UUID.")
	}
	return id, nil
}

// routeOf returns the path of the matched route as in docs/openapi.yaml.
func routeOf(r *http.Request) string {
	if route := mux.CurrentRoute(r); route != nil {
		if template, err := route.GetPathTemplate(); err == nil {
			return withoutPatterns(template)
		}
	}
	return "unmatched"
}

// withoutPatterns replaces {name:pattern} by {name} in a template of mux.
func withoutPatterns(template string) string {
	if !strings.Contains(template, ":") {
		return template
	}
	var plain strings.Builder
	depth, inPattern := 0, false
	for _, c := range template {
		switch {
		case c == '{':
			depth++
		case c == '}':
			depth--
			inPattern = inPattern && depth > 0
		case c == ':' && depth == 1:
			inPattern = true
		}
		if !inPattern {
			plain.WriteRune(c)
		}
	}
	return plain.String()
}
