package request

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"novelgate/commands/problem"
)

// maxMembers is the number of fields of the largest command.
const maxMembers = 8

// maxUnknown is how many unknown members are told of at once, where they are refused.
const maxUnknown = 20

// object is a request body whose known members are found but not yet checked. The
// checks are asked for in the order of the documentation, so that errs is in it too.
type object struct {
	names    []string                   // of the known members
	raw      [maxMembers]jsontext.Value // parts of the body; nil where a member is absent or null
	null     [maxMembers]bool
	miscased [maxMembers]string // a member that differs from names[i] in case alone
	strict   bool               // an unknown member is a failure
	errs     []problem.FieldError
}

// scanner is a reusable decoder over a body that is wholly in memory.
type scanner struct {
	buffer  bytes.Buffer
	decoder jsontext.Decoder
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// over readies the scanner for a body. A decoder over a bytes.Buffer reads in place.
func (s *scanner) over(body []byte) *jsontext.Decoder {
	s.buffer = *bytes.NewBuffer(body)
	s.decoder.Reset(&s.buffer)
	return &s.decoder
}

// release returns the scanner to the pool without a reference to the body.
func (s *scanner) release() {
	s.over(nil)
	scanners.Put(s)
}

// parse finds the known members of a body. The error is about the body as a whole.
func (o *object) parse(body []byte, names []string) error {
	o.names = names
	s, _ := scanners.Get().(*scanner)
	defer s.release()
	dec := s.over(body)

	if err := begin(dec, body); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadValue()
		if err != nil {
			return o.malformed(err)
		}
		i, exact, spelled := o.find(name)
		value, err := dec.ReadValue()
		if err != nil {
			return o.malformed(err)
		}
		switch {
		case i < 0 && o.strict && len(o.errs) < maxUnknown:
			o.failAt(clip(unquote(name)), "unknown member")
		case i < 0:
		case !exact:
			o.miscased[i] = spelled
		case value.Kind() == 'n':
			o.null[i] = true
		default:
			// The decoder's value is only valid until the next read; the body stays.
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

// begin reads the opening brace.
func begin(dec *jsontext.Decoder, body []byte) error {
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
		return new(object).malformed(err)
	case kind != '{':
		return problem.MalformedBody(want + ", but it is " + Describe(kind) + ".")
	}
	return nil
}

// find returns the index of the known member with the quoted name, -1 if none;
// exact is false when it differs in case, spelled is the name as sent then.
func (o *object) find(quoted jsontext.Value) (i int, exact bool, spelled string) {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name = []byte(unquote(quoted))
	}
	for i, known := range o.names {
		if string(name) == known {
			return i, true, ""
		}
	}
	for i, known := range o.names {
		// Folding a letter changes its length by two bytes at most.
		if len(name) <= 3*len(known) && strings.EqualFold(string(name), known) {
			return i, false, string(name)
		}
	}
	return -1, false, ""
}

// malformed describes a syntax error; it names the member of the body that it is in, however deep, where there is one.
func (o *object) malformed(err error) error {
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return problem.MalformedBody("The request body is not valid JSON: it ends too early.")
	}
	member := ""
	for member = range syntax.JSONPointer.Tokens() {
		break
	}
	// A field without a name would tell nothing.
	if errors.Is(syntax.Err, jsontext.ErrDuplicateName) && member != "" {
		where := "duplicate member"
		if syntax.JSONPointer.Parent() != "" {
			where = "duplicate member inside"
		}
		return problem.InvalidRequest(problem.FieldError{
			Field:   clip(member),
			Message: fmt.Sprintf("%s at byte %d", where, syntax.ByteOffset),
		})
	}
	reason := fmt.Sprintf("%v at byte %d", syntax.Err, syntax.ByteOffset)
	if slices.Contains(o.names, member) {
		return problem.InvalidRequest(problem.FieldError{Field: member, Message: "not valid JSON: " + reason})
	}
	return problem.MalformedBody("The request body is not valid JSON: " + reason + ".")
}

// fail records what is wrong with member i.
func (o *object) fail(i int, format string, args ...any) {
	o.failAt(o.names[i], format, args...)
}

func (o *object) failAt(field, format string, args ...any) {
	o.errs = append(o.errs, problem.FieldError{Field: field, Message: fmt.Sprintf(format, args...)})
}

// err returns the refusal that holds every recorded failure, nil without one.
func (o *object) err() error {
	if len(o.errs) == 0 {
		return nil
	}
	return problem.InvalidRequest(o.errs...)
}

// value returns member i if it is present, not null and of the kind; it records
// every other case but that of an optional member left out.
func (o *object) value(i int, kind jsontext.Kind, required bool) (jsontext.Value, bool) {
	if sent := o.miscased[i]; sent != "" {
		o.failAt(sent, "unknown member: the name is %q, and case matters", o.names[i])
	}
	switch raw := o.raw[i]; {
	case raw != nil && raw.Kind() == kind:
		return raw, true
	case raw != nil:
		o.fail(i, "must be %s, got %s", Describe(kind), Describe(raw.Kind()))
	case required && o.null[i]:
		o.fail(i, "is required and must not be null")
	case required && o.miscased[i] == "":
		o.fail(i, "is required")
	}
	return nil, false
}

// Describe names a kind of JSON value with its article.
func Describe(kind jsontext.Kind) string {
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
