package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"novelgate/internal/problem"
)

// maxMembers is the maximum number of known members of a body.
const maxMembers = 8

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

	names    []string                   // of the known members
	raw      [maxMembers]jsontext.Value // values of names, as slices of the body; nil if absent or null
	null     [maxMembers]bool           // whether the value of names[i] is null
	miscased [maxMembers]string         // a member that differs from names[i] only in case
	unknown  []string                   // the first maxErrors unknown members, which are ignored
	errs     []problem.FieldError
}

// scanner is a reusable decoder over a body in memory.
type scanner struct {
	buffer  bytes.Buffer
	decoder jsontext.Decoder
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// reset makes the scanner read a body. A decoder over a bytes.Buffer reads in place.
func (s *scanner) reset(body []byte) *jsontext.Decoder {
	s.buffer = *bytes.NewBuffer(body)
	s.decoder.Reset(&s.buffer)
	return &s.decoder
}

// release returns the scanner to the pool without a reference to the body.
func (s *scanner) release() {
	s.reset(nil)
	scanners.Put(s)
}

// Parse finds the members with the given names, at most eight, in a body. It fails if the body is not a JSON object, or
// one with duplicate members.
func (o *Object) Parse(body []byte, names []string) error {
	o.names = names
	s, _ := scanners.Get().(*scanner)
	defer s.release()
	dec := s.reset(body)

	if err := o.readOpeningBrace(dec, body); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadValue()
		if err != nil {
			return o.malformed(err)
		}
		i, miscased := o.find(name)
		value, err := dec.ReadValue()
		if err != nil {
			return o.malformed(err)
		}
		switch {
		case i < 0 && o.Strict && len(o.errs) < maxErrors:
			o.Fail(Clip(unquote(name)), "unknown member")
		case i < 0:
			if len(o.unknown) < maxErrors {
				o.unknown = append(o.unknown, Clip(unquote(name)))
			}
		case miscased != "":
			o.miscased[i] = miscased
		case value.Kind() == 'n':
			o.null[i] = true
		default:
			// The decoder's value is only valid until the next read, so keep a part of the body instead.
			end := int(dec.InputOffset())
			o.raw[i] = body[end-len(value) : end]
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

// find returns the index of the known member with the quoted name, or -1. If the case differs, miscased is the name as
// sent.
func (o *Object) find(quoted jsontext.Value) (i int, miscased string) {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name = []byte(unquote(quoted))
	}
	for i, known := range o.names {
		if string(name) == known {
			return i, ""
		}
	}
	for i, known := range o.names {
		// Folding changes the length of a letter by at most two bytes.
		if len(name) <= 3*len(known) && strings.EqualFold(string(name), known) {
			return i, string(name)
		}
	}
	return -1, ""
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

// Null reports whether a member is null.
func (o *Object) Null(name string) bool { return o.null[slices.Index(o.names, name)] }

// Given reports whether a member is present and not null.
func (o *Object) Given(name string) bool { return o.raw[slices.Index(o.names, name)] != nil }

// value returns the value of a member if it is present, not null and of the kind; want names the kind in messages.
// Otherwise it records an error, unless the member is optional and omitted.
func (o *Object) value(name string, kind jsontext.Kind, want string, required bool) (jsontext.Value, bool) {
	i := slices.Index(o.names, name)
	if sent := o.miscased[i]; sent != "" {
		o.Fail(sent, "unknown member: the name is %q, and case matters", name)
	}
	switch raw := o.raw[i]; {
	case raw != nil && raw.Kind() == kind:
		return raw, true
	case raw != nil:
		o.Fail(name, "must be %s, got %s", want, describe(raw.Kind()))
	case required && o.null[i]:
		o.Fail(name, "is required and must not be null")
	case required && o.miscased[i] == "":
		o.Fail(name, "is required")
	}
	return nil, false
}

// Number returns the text of a number.
func (o *Object) Number(name string) (string, bool) {
	raw, ok := o.value(name, '0', "a number", false)
	return string(raw), ok
}

// Integer returns a whole number.
func (o *Object) Integer(name string) (n int64, ok bool) {
	raw, ok := o.value(name, '0', "a whole number", false)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case err == nil:
		return n, true
	case errors.Is(err, strconv.ErrRange):
		o.Fail(name, "is out of range")
	default:
		o.Fail(name, "must be a whole number, without fraction and exponent")
	}
	return 0, false
}

// Bool returns a boolean.
func (o *Object) Bool(name string) (value, ok bool) {
	i := slices.Index(o.names, name)
	kind := jsontext.Kind('t')
	if o.raw[i] != nil && o.raw[i].Kind() == 'f' {
		kind = 'f'
	}
	_, ok = o.value(name, kind, "a boolean", false)
	return kind == 't', ok
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
	for value := range elements(raw) {
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

// elements yields the elements of an array that the decoder has validated. Each is valid until the next one.
func elements(array jsontext.Value) iter.Seq[jsontext.Value] {
	return func(yield func(jsontext.Value) bool) {
		s, _ := scanners.Get().(*scanner)
		defer s.release()
		dec := s.reset(array)
		if _, err := dec.ReadToken(); err != nil {
			return
		}
		for dec.PeekKind() != ']' {
			value, err := dec.ReadValue()
			if err != nil || !yield(value) {
				return
			}
		}
	}
}

// unquote decodes a string that the decoder has validated.
func unquote(quoted jsontext.Value) string {
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	s, _ := jsontext.AppendUnquote(make([]byte, 0, len(quoted)), quoted) // no error: the decoder has validated it
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
func Clip(s string) string { return problem.Clip(s, 40) }

// Thousands formats n with separators: 20,000.
func Thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
