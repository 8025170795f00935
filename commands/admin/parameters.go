package admin

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"novelgate/commands/problem"
)

// parametersOf returns the parameters in the query of a request. Each must be one of those that the route knows, and be given once: a
// filter with a typing error must not look like one that lets everything through.
func parametersOf(r *http.Request, known []string) (map[string]string, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, problem.MalformedQuery()
	}
	parameters := map[string]string{}
	var wrong []problem.FieldError
	refuse := func(name, message string) {
		wrong = append(wrong, problem.FieldError{Field: strings.ToValidUTF8(name, "?"), Message: message})
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch values := query[name]; {
		case !slices.Contains(known, name):
			refuse(name, "is no parameter of this address")
		case len(values) != 1:
			refuse(name, "must be given once")
		case !utf8.ValidString(values[0]) || strings.ContainsRune(values[0], 0):
			refuse(name, "must be UTF-8 without NUL")
		default:
			parameters[name] = values[0]
		}
	}
	if wrong != nil {
		return nil, problem.InvalidRequest(wrong...)
	}
	return parameters, nil
}
