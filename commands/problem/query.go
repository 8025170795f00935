package problem

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// Parameters returns the parameters in the query of an address, or an invalid_request that names those that are given
// more than once, are no text, or that known, unless it is nil, does not know: a filter with a typing error must not
// look like one that lets everything through.
func Parameters(address *url.URL, known func(name string) bool) (map[string]string, error) {
	query, err := url.ParseQuery(address.RawQuery)
	if err != nil {
		return nil, MalformedQuery()
	}
	parameters := make(map[string]string, len(query))
	var wrong []FieldError
	for _, name := range slices.Sorted(maps.Keys(query)) {
		values := query[name]
		refuse := func(message string) {
			wrong = append(wrong, FieldError{Field: strings.ToValidUTF8(name, "?"), Message: message})
		}
		switch text := name + values[0]; {
		case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
			refuse("must be UTF-8 without NUL")
		case known != nil && !known(name):
			refuse("is no parameter of this address")
		case len(values) != 1:
			refuse("must be given once")
		default:
			parameters[name] = values[0]
		}
	}
	if wrong != nil {
		return nil, InvalidRequest(wrong...)
	}
	return parameters, nil
}
