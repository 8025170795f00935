package web

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"novelgate/internal/problem"
)

// maxParameter is the maximum length of a value in bytes: enough for a title of 300 characters, or a cursor with one.
const maxParameter = 4096

// Query has the parameters of an address. Its methods return the zero value for an absent parameter, and record an
// error for an invalid one; Err returns the errors.
type Query struct {
	values url.Values
	errs   []problem.FieldError
}

// ReadQuery reads the parameters of an address. The error is a *problem.Error.
func ReadQuery(address *url.URL) (*Query, error) {
	values, err := url.ParseQuery(address.RawQuery)
	if err != nil {
		return nil, problem.InvalidField("query", // must not be ignored
			"is not well formed; in a value, % is written %25, & is %26 and ; is %3B")
	}
	return &Query{values: values}, nil
}

// ReadStrictQuery is ReadQuery, but refuses parameters other than names, and repeated, too long or non-text values of
// these: a filter with a misspelled name must not match everything.
func ReadStrictQuery(address *url.URL, names ...string) (*Query, error) {
	q, err := ReadQuery(address)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(q.values)) {
		if slices.Contains(names, name) {
			q.Text(name)
		} else {
			q.Refuse(name, "is no parameter of this address")
		}
	}
	return q, q.Err()
}

// All returns every parameter, with repeated values joined by commas.
func (q *Query) All() map[string]string {
	all := make(map[string]string, len(q.values))
	for name, values := range q.values {
		all[name] = strings.Join(values, ",")
	}
	return all
}

// Refuse records an error of a parameter.
func (q *Query) Refuse(name, message string) {
	q.errs = append(q.errs, problem.FieldError{Field: strings.ToValidUTF8(name, "?"), Message: message})
}

// Err returns the problem with all invalid parameters; nil without any.
func (q *Query) Err() error {
	if len(q.errs) > 0 {
		return problem.InvalidRequest(q.errs...)
	}
	return nil
}

// Given reports whether a parameter is present, empty or not.
func (q *Query) Given(name string) bool { return q.values.Has(name) }

// Text returns a parameter.
func (q *Query) Text(name string) string {
	given := q.values[name]
	switch {
	case len(given) == 0:
		return ""
	case len(given) > 1:
		q.Refuse(name, "must be given once")
	case len(given[0]) > maxParameter:
		q.Refuse(name, fmt.Sprintf("is longer than %d bytes", maxParameter))
	case !IsText(given[0]):
		q.Refuse(name, "must be UTF-8 without NUL")
	default:
		return given[0]
	}
	return ""
}

// IsText reports whether a text can be sent to the database: UTF-8 without the character NUL.
func IsText(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// OneOf returns a parameter that has one of the allowed values.
func (q *Query) OneOf(name string, allowed ...string) string {
	text := q.Text(name)
	if text != "" && !slices.Contains(allowed, text) {
		last := len(allowed) - 1
		q.Refuse(name, "must be "+strings.Join(allowed[:last], ", ")+" or "+allowed[last])
		return ""
	}
	return text
}

// Bool returns a parameter that is true or false; nil when it is absent.
func (q *Query) Bool(name string) *bool {
	text := q.OneOf(name, "true", "false")
	if text == "" {
		return nil
	}
	return new(text == "true")
}

// Limit returns the parameter limit, the size of a page: from 1 to most; standard if it is absent or invalid.
func (q *Query) Limit(standard, most int) int {
	text := q.Text("limit")
	if text == "" {
		return standard
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > most {
		q.Refuse("limit", fmt.Sprintf("must be a number from 1 to %d", most))
		return standard
	}
	return limit
}

// Index returns a parameter that is a log index; nil when it is absent.
func (q *Query) Index(name string) *int64 {
	text := q.Text(name)
	if text == "" {
		return nil
	}
	index, err := strconv.ParseInt(text, 10, 64)
	if err != nil || index < 0 {
		q.Refuse(name, "must be a log index: a number, 0 or greater")
	}
	return &index
}

// ID returns a parameter that is a UUID in its canonical form.
func (q *Query) ID(name string) uuid.NullUUID {
	text := q.Text(name)
	if text == "" {
		return uuid.NullUUID{}
	}
	id, ok := ParseID(text)
	if !ok {
		q.Refuse(name, "must be a UUID")
	}
	return uuid.NullUUID{UUID: id, Valid: true}
}

// ParseID parses a UUID in its canonical form.
func ParseID(text string) (id uuid.UUID, ok bool) {
	id, err := uuid.Parse(text)
	return id, err == nil && len(text) == len(uuid.Nil.String())
}

// Time returns a parameter that is a time; nil when it is absent.
func (q *Query) Time(name string) *time.Time {
	text := q.Text(name)
	if text == "" {
		return nil
	}
	moment, err := ParseTime(text)
	if err != nil {
		q.Refuse(name, err.Error())
	}
	return &moment
}

// errTime replaces the error of time.Parse, which shows Go's layout string.
var errTime = errors.New("must be a time with its zone, such as 2026-01-31T12:00:00Z")

// ParseTime parses a time in RFC 3339 form, in the years 1 to 9999 (UTC).
func ParseTime(text string) (time.Time, error) {
	moment, err := time.Parse(time.RFC3339Nano, text)
	if year := moment.UTC().Year(); err != nil || year < 1 || year > 9999 {
		return time.Time{}, errTime
	}
	return moment, nil
}

// Cursor decodes the parameter cursor of a list and returns the sort key that it contains; "" for the first page.
func (q *Query) Cursor(list string) string {
	text := q.Text("cursor")
	if text == "" {
		return ""
	}
	sortKey, ok := DecodeCursor(list, text)
	if !ok || sortKey == "" {
		q.RefuseCursor()
	}
	return sortKey
}

// RefuseCursor records that the parameter cursor is not from a page of this list.
func (q *Query) RefuseCursor() { q.Refuse("cursor", "is not the nextCursor of a page of this list") }

// Page is one page of a list. NextCursor is null on the last page.
type Page[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"nextCursor"`
}

// NewPage returns a page with the first limit items. More items than limit mean that the page is not the last one.
// sortKey returns the sort key of an item in the list.
func NewPage[T any](list string, items []T, limit int, sortKey func(*T) string) Page[T] {
	page := Page[T]{Items: items}
	if len(items) > limit {
		page.Items, page.NextCursor = items[:limit], new(EncodeCursor(list, sortKey(&items[limit-1])))
	}
	return page
}

// EncodeCursor returns a cursor for clients: the name of the list and a sort key, in base64url. The name makes the
// cursor invalid for other lists.
func EncodeCursor(list, sortKey string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(list + sortKey))
}

// DecodeCursor returns the sort key in a cursor of the list. ok is false for a cursor of another list and for invalid
// text.
func DecodeCursor(list, cursor string) (sortKey string, ok bool) {
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(string(decoded), list)
}
