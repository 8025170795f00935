// Package question reads what a reader asks for from the query of an address. Every failing parameter is reported.
package question

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"novelgate/commands/problem"
	"novelgate/readapi/reading"
)

// The sizes of pages.
const (
	DefaultLimit = 20
	MaxLimit     = 100

	defaultReplies = 50 // of one comment
)

// maxText is the longest value of a parameter, in bytes: a title of 300 characters and a cursor made from it fit.
const maxText = 4096

// WellFormed refuses an address whose query cannot be read as a whole: URL.Query would pass over what it cannot read,
// and the answer would be as if it had not been asked for.
func WellFormed(address *url.URL) error {
	if _, err := url.ParseQuery(address.RawQuery); err != nil {
		return problem.MalformedQuery()
	}
	return nil
}

// values reads parameters and collects what is wrong with them.
type values struct {
	url.Values
	wrong []problem.FieldError
}

// text returns a parameter, "" when it is absent.
func (v *values) text(name string) string {
	given := v.Values[name]
	switch {
	case len(given) == 0:
		return ""
	case len(given) > 1:
		v.refuse(name, "is given more than once")
	case len(given[0]) > maxText:
		v.refuse(name, fmt.Sprintf("is longer than %d bytes", maxText))
	case !isText(given[0]):
		v.refuse(name, "is not text in UTF-8")
	default:
		return given[0]
	}
	return ""
}

// isText reports whether the database can be asked about a text: it knows neither the character NUL nor what is not
// UTF-8.
func isText(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

func (v *values) refuse(name, message string) {
	v.wrong = append(v.wrong, problem.FieldError{Field: name, Message: message})
}

func (v *values) err() error {
	if len(v.wrong) > 0 {
		return problem.InvalidRequest(v.wrong...)
	}
	return nil
}

// oneOf returns a parameter that has one of few values; "" when it is absent.
func (v *values) oneOf(name string, allowed ...string) string {
	text := v.text(name)
	for _, value := range allowed {
		if text == value {
			return text
		}
	}
	if text != "" {
		v.refuse(name, "must be "+strings.Join(allowed, " or "))
	}
	return ""
}

func (v *values) limit() int {
	text := v.text("limit")
	if text == "" {
		return DefaultLimit
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > MaxLimit {
		v.refuse("limit", fmt.Sprintf("must be a number from 1 to %d", MaxLimit))
	}
	return limit
}

// id returns a parameter that is a UUID; null when it is absent.
func (v *values) id(name string) uuid.NullUUID {
	text := v.text(name)
	if text == "" {
		return uuid.NullUUID{}
	}
	id, err := ID(text)
	if err != nil {
		v.refuse(name, "must be the id of a comment")
	}
	return uuid.NullUUID{UUID: id, Valid: true}
}

// decimal is what a chapter number may look like: no sign, no exponent, as many digits as a delivery may have.
var decimal = regexp.MustCompile(`^[0-9]{1,7}(\.[0-9]{1,40})?$`)

func (v *values) chapter() string {
	text := v.text("chapter")
	if text != "" && text != reading.NoChapter && !decimal.MatchString(text) {
		v.refuse("chapter", "must be a decimal number or "+reading.NoChapter)
	}
	return text
}

// asOf returns the parameter of this name; nil when it is absent. The zero time is a moment like any other.
func (v *values) asOf() *time.Time {
	text := v.text("asOf")
	if text == "" {
		return nil
	}
	moment, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || moment.UTC().Year() < 1 || moment.UTC().Year() > 9999 {
		v.refuse("asOf", "must be a date and time as in RFC 3339, such as 2025-03-01T17:30:00Z")
	}
	return &moment
}

// ID reads the identifier of a comment in its one form.
func ID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != len(id.String()) {
		return uuid.Nil, reading.ErrNotFound
	}
	return id, nil
}
