package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"novelgate/internal/problem"
	"novelgate/internal/title"
)

// maxErrors limits the reported errors of unknown members, and of the elements of an array.
const maxErrors = 20

// Object is the JSON object of a request body (RFC 8259). It refuses: other top-level values, a byte order mark,
// trailing data, duplicate members (also in nested objects of unknown members), invalid UTF-8, unpaired escaped
// surrogates, nesting beyond 10,000 levels, and a member that differs from a known one only in case. It never converts
// between strings and numbers or booleans.
//
// Parse finds the known members. The other methods read one member each, in the order of the documentation, so that the
// errors have the same order; Err returns them.
type Object struct {
	// Strict refuses unknown members. Otherwise they are ignored.
	Strict bool

	names   []string // of the known members
	members []member // parallel to names
	unknown []string // the first maxErrors unknown members, which are ignored
	errs    []problem.FieldError
}

// member is what a body has of a known member.
type member struct {
	raw      jsontext.Value // the value, as a slice of the body; nil if it is absent or null
	null     bool
	miscased string // a name that differs from the known one only in case
}

var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// Parse finds the members with the given names in a body. It fails if the body is not a JSON object, or one with
// duplicate members.
func (o *Object) Parse(body []byte, names []string) error {
	o.names, o.members = names, make([]member, len(names))
	dec, _ := decoders.Get().(*jsontext.Decoder)
	defer decoders.Put(dec)
	dec.Reset(bytes.NewBuffer(body)) // reads a buffer in place
	if err := o.readOpeningBrace(dec, body); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		token, err := dec.ReadToken()
		if err != nil {
			return o.malformed(err)
		}
		sent := token.String()
		value, err := dec.ReadValue()
		if err != nil {
			return o.malformed(err)
		}
		i := slices.IndexFunc(names, func(known string) bool { return strings.EqualFold(sent, known) })
		if i < 0 {
			if o.Strict && len(o.errs) < maxErrors {
				o.Fail(Clip(sent), "unknown member")
			} else if len(o.unknown) < maxErrors {
				o.unknown = append(o.unknown, Clip(sent))
			}
			continue
		}
		m := &o.members[i]
		switch {
		case sent != names[i]:
			m.miscased = sent
		case value.Kind() == 'n':
			m.null = true
		default:
			// The decoder's value is only valid until the next read, so keep a part of the body instead.
			end := int(dec.InputOffset())
			m.raw = body[end-len(value) : end]
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return o.malformed(err)
	}
	end := dec.InputOffset()
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return problem.MalformedBody(fmt.Sprintf("The JSON object ends at byte %d, but more data follows.", end))
	}
	return nil
}

// readOpeningBrace reads the brace that begins the object. Its error says what the body is instead.
func (o *Object) readOpeningBrace(dec *jsontext.Decoder, body []byte) error {
	const want = "The request body must be a JSON object"
	if bytes.HasPrefix(body, []byte("\ufeff")) {
		return problem.MalformedBody("The request body starts with a byte order mark (byte 0), which JSON does not allow.")
	}
	kind := dec.PeekKind()
	_, err := dec.ReadToken()
	switch {
	case errors.Is(err, io.EOF):
		return problem.MalformedBody(want + ", but it is empty.")
	case err != nil:
		return o.malformed(err)
	case kind != '{':
		return problem.MalformedBody(want + ", but it is " + describe(kind) + ".")
	}
	return nil
}

// malformed describes a syntax error. It names the top-level member that contains the error, if this member is known,
// or a name is duplicate.
func (o *Object) malformed(err error) error {
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return problem.MalformedBody("The request body is not valid JSON: it ends too early.")
	}
	member := ""
	for member = range syntax.JSONPointer.Tokens() {
		break
	}
	// An error of a field without a name would be useless to the client.
	if errors.Is(syntax.Err, jsontext.ErrDuplicateName) && member != "" {
		where := "duplicate member"
		if syntax.JSONPointer.Parent() != "" {
			where = "duplicate member inside"
		}
		return problem.InvalidField(Clip(member), fmt.Sprintf("%s at byte %d", where, syntax.ByteOffset))
	}
	reason := fmt.Sprintf("%v at byte %d", syntax.Err, syntax.ByteOffset)
	if slices.Contains(o.names, member) {
		return problem.InvalidField(member, "not valid JSON: "+reason)
	}
	return problem.MalformedBody("The request body is not valid JSON: " + reason + ".")
}

// Fail records an error of a member, or of an element such as genres[3].
func (o *Object) Fail(field, format string, args ...any) {
	o.errs = append(o.errs, problem.FieldError{Field: field, Message: fmt.Sprintf(format, args...)})
}

// Err returns the problem with all recorded errors; nil without any.
func (o *Object) Err() error {
	if len(o.errs) == 0 {
		return nil
	}
	return problem.InvalidRequest(o.errs...)
}

// Unknown returns the members that are ignored, up to twenty, in the order of the body; nil without any.
func (o *Object) Unknown() []string { return o.unknown }

// Given reports whether a member is present and not null.
func (o *Object) Given(name string) bool { return o.member(name).raw != nil }

// Null reports whether a member is present and null.
func (o *Object) Null(name string) bool { return o.member(name).null }

func (o *Object) member(name string) *member { return &o.members[slices.Index(o.names, name)] }

// value returns the value of a member if it is present, not null and of the kind; want names the kind in messages.
// Otherwise it records an error, unless the member is optional and omitted.
func (o *Object) value(name string, kind jsontext.Kind, want string, required bool) (jsontext.Value, bool) {
	m := o.member(name)
	o.failMiscased(name)
	switch raw := m.raw; {
	case raw != nil && raw.Kind() == kind:
		return raw, true
	case raw.Kind() == '"':
		o.Fail(name, "must be %s, got the string %q", want, Clip(unquote(raw)))
	case raw != nil:
		o.Fail(name, "must be %s, got %s", want, describe(raw.Kind()))
	case required && m.null:
		o.Fail(name, "is required and must not be null")
	case required && m.miscased == "":
		o.Fail(name, "is required")
	}
	return nil, false
}

func (o *Object) failMiscased(name string) {
	if sent := o.member(name).miscased; sent != "" {
		o.Fail(sent, "unknown member: the name is %q, and case matters", name)
	}
}

// Number returns the text of a number.
func (o *Object) Number(name string) (string, bool) {
	raw, ok := o.value(name, '0', "a number", false)
	return string(raw), ok
}

// Text returns a string without NUL, which PostgreSQL cannot store in text.
func (o *Object) Text(name string, required bool) (string, bool) {
	raw, ok := o.value(name, '"', "a string", required)
	if !ok {
		return "", false
	}
	return o.text(name, raw)
}

func (o *Object) text(field string, quoted jsontext.Value) (string, bool) {
	s := unquote(quoted)
	if strings.IndexByte(s, 0) >= 0 {
		o.Fail(field, "must not contain the character NUL (U+0000)")
		return "", false
	}
	return s, true
}

// Texts calls element for each string of an array, with a field such as genres[3], and records an error for each other
// element, up to maxErrors. It records an error if there are fewer than least or more than most elements, and ignores
// those after the first most. It returns false when there is no array.
func (o *Object) Texts(name string, required bool, least, most int, element func(field, text string)) bool {
	raw, ok := o.value(name, '[', "an array", required)
	if !ok {
		return false
	}
	count, before := 0, len(o.errs)
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
	_, _ = dec.ReadToken() // no errors: Parse has validated the array
	for dec.PeekKind() != ']' {
		value, _ := dec.ReadValue()
		field := name + "[" + strconv.Itoa(count) + "]"
		if count++; count > most || len(o.errs)-before >= maxErrors {
			continue
		}
		if value.Kind() != '"' {
			o.Fail(field, "must be a string, got %s", describe(value.Kind()))
		} else if s, ok := o.text(field, value); ok {
			element(field, s)
		}
	}
	switch {
	case count >= least && count <= most:
	case least > 0:
		o.Fail(name, "must have %d to %s entries, got %s", least, Thousands(most), Thousands(count))
	default:
		o.Fail(name, "must have at most %s entries, got %s", Thousands(most), Thousands(count))
	}
	return true
}

// Decode decodes a JSON object into a struct whose fields have names of members. It is as strict as Object, and
// refuses unknown members, and null for members that are not nullable. The error is a *problem.Error; of
// several members of a wrong type it names the first in the body.
func Decode(body []byte, into any, nullable ...string) error {
	o := Object{Strict: true}
	fields := reflect.TypeOf(into).Elem()
	names := make([]string, fields.NumField())
	for i := range names {
		names[i], _, _ = strings.Cut(fields.Field(i).Tag.Get("json"), ",")
	}
	if err := o.Parse(body, names); err != nil {
		return err
	}
	for _, name := range names {
		o.failMiscased(name)
		if o.member(name).null && !slices.Contains(nullable, name) {
			o.Fail(name, "must not be null")
		}
	}
	if len(o.errs) == 0 {
		err := json.Unmarshal(body, into, json.WithUnmarshalers(json.UnmarshalFromFunc(decodeText)))
		wrong, ok := errors.AsType[*json.SemanticError](err)
		if !ok {
			return err
		}
		field := ""
		for token := range wrong.JSONPointer.Tokens() {
			if field == "" {
				field = token
			} else {
				field += "[" + token + "]"
			}
		}
		o.Fail(field, "%s", mistake(wrong))
	}
	return o.Err()
}

// decodeText refuses strings that Object.Text refuses, and null as an element of an array.
func decodeText(decoder *jsontext.Decoder, text *string) error {
	switch decoder.PeekKind() {
	case 'n':
		return errors.New("must be a string, got null")
	case '"':
	default:
		return errors.ErrUnsupported // the usual error
	}
	token, err := decoder.ReadToken()
	if *text = token.String(); err == nil && strings.ContainsRune(*text, 0) {
		return errors.New("must not contain the character NUL (U+0000)")
	}
	return err
}

// mistake describes why a value does not fit its field.
func mistake(err *json.SemanticError) string {
	switch {
	case errors.Is(err, strconv.ErrRange):
		return "is out of range"
	case err.JSONKind == '0' && errors.Is(err, strconv.ErrSyntax):
		return "must be a whole number, without fraction and exponent"
	case err.Err != nil && err.JSONKind == 0:
		return err.Err.Error()
	}
	want := "an object"
	switch err.GoType.Kind() { //nolint:exhaustive // no others occur in bodies
	case reflect.String:
		want = "a string"
	case reflect.Bool:
		want = "a boolean"
	case reflect.Slice:
		want = "an array"
	case reflect.Int, reflect.Int64:
		want = "a whole number"
	}
	return "must be " + want + ", got " + describe(err.JSONKind)
}

// unquote decodes a string that the decoder has validated.
func unquote(quoted jsontext.Value) string {
	s, _ := jsontext.AppendUnquote(nil, quoted)
	return string(s)
}

// describe returns the name of a kind of JSON value with its article, such as "an array".
func describe(kind jsontext.Kind) string {
	switch kind {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't', 'f':
		return "a boolean"
	default:
		return "null"
	}
}

// Clip shortens text of a request for a message, to 40 characters.
func Clip(s string) string { return title.Clip(s, 40) }

// Thousands formats n with separators: 20,000.
func Thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
