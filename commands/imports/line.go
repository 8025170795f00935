package imports

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"novelgate/commands/ratelimit"
	"novelgate/commands/request"
	"novelgate/internal/problem"
)

// maxLine is the maximum length of a stored line in bytes: the largest body, its key, and room for ignored members. A
// longer line is cut after one more byte, which marks it as too long.
const maxLine = 64 << 10

// Line is a line of an import: a command.
type Line struct {
	Operation ratelimit.Operation
	Key       string
	Novel     *request.Novel // of an upsert
	Post      *request.Post  // of a comment
}

// ParseLine parses {"operation":"posts"|"novels","idempotencyKey":"…","body":{…}}, as strictly as the live interface
// parses a body and its key. It ignores other members. allowed checks the capability for the operation. The error is
// a *problem.Error; the line then has the members that could be read.
func ParseLine(raw []byte, receivedAt time.Time, allowed func(ratelimit.Operation) error) (line Line, err error) {
	if len(raw) > maxLine {
		return line, problem.PayloadTooLarge(request.MaxBody).WithDetail(
			fmt.Sprintf("The line is longer than %d bytes.", maxLine))
	}
	if string(raw) == erasedLine {
		return line, errErased
	}
	e, err := readEnvelope(raw)
	if err != nil {
		return line, err
	}
	key, wrongKey := request.ParseKey(e.key.value)
	if wrongKey == "" {
		line.Key = key
	}
	operation := ratelimit.Operation(e.operation.value)
	if operation != ratelimit.Novels && operation != ratelimit.Posts {
		return line, problem.InvalidField("operation", "must be novels or posts")
	}
	line.Operation = operation
	if len(e.body) > request.MaxBody {
		return line, problem.PayloadTooLarge(request.MaxBody)
	}
	if err := allowed(operation); err != nil {
		return line, err
	}
	switch {
	case !e.key.given:
		return line, problem.InvalidIdempotencyKey("The idempotencyKey is missing.")
	case !e.key.isText:
		return line, problem.InvalidIdempotencyKey("The idempotencyKey must be a string.")
	case wrongKey != "":
		return line, problem.InvalidIdempotencyKey("The idempotencyKey " + wrongKey + ".")
	case e.body == nil:
		return line, problem.InvalidField("body", "is required")
	}
	err = line.decodeBody(e.body, receivedAt)
	return line, err
}

func (l *Line) decodeBody(body []byte, receivedAt time.Time) error {
	if l.Operation == ratelimit.Novels {
		upsert, err := request.DecodeNovel(body)
		if err == nil {
			l.Novel = &upsert
		}
		return err
	}
	comment, err := request.DecodePost(body, receivedAt)
	if err == nil {
		l.Post = &comment
	}
	return err
}

// Unknown returns the members of the body that are ignored, up to twenty.
func (l *Line) Unknown() []string {
	switch {
	case l.Post != nil:
		return l.Post.Unknown
	case l.Novel != nil:
		return l.Novel.Unknown
	default:
		return nil
	}
}

// awaitsParent reports whether a line is a reply whose parent may be stored later. A comment is not its own parent, and
// a string that cannot be a key never has a comment.
func (l *Line) awaitsParent() bool {
	if l.Post == nil || l.Post.ParentKey == nil || *l.Post.ParentKey == l.Key {
		return false
	}
	key, wrong := request.ParseKey(*l.Post.ParentKey)
	return wrong == "" && key == *l.Post.ParentKey
}

// erasedLine replaces a line whose author was erased.
const erasedLine = `{"erased":true}`

// envelope has the members of a line, with the body as sent.
type envelope struct {
	operation, key textMember
	body           []byte // nil when there is none
}

// textMember is a member that must be a string.
type textMember struct {
	given, isText bool
	value         string
}

// readEnvelope parses a line. It checks only where values end, so that the body gets the same error text as on the live
// interface.
func readEnvelope(raw []byte) (envelope, error) {
	var e envelope
	if len(bytes.TrimSpace(raw)) == 0 {
		return e, problem.MalformedBody("The line is empty.")
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if kind := dec.PeekKind(); kind != '{' {
		if _, err := dec.ReadValue(); err != nil {
			return e, notJSON(err)
		}
		return e, problem.MalformedBody("The line must be a JSON object.")
	}
	if _, err := dec.ReadToken(); err != nil {
		return e, notJSON(err)
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return e, notJSON(err)
		}
		member := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			return e, notJSON(err)
		}
		end := int(dec.InputOffset())
		if err := e.set(member, raw[end-len(value):end]); err != nil {
			return e, err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return e, notJSON(err)
	}
	if rest := bytes.TrimSpace(raw[dec.InputOffset():]); len(rest) > 0 {
		return e, problem.MalformedBody(
			fmt.Sprintf("The JSON object ends at byte %d, but more data follows.", dec.InputOffset()))
	}
	return e, nil
}

func (e *envelope) set(member string, value jsontext.Value) error {
	switch member {
	case "operation":
		return e.operation.set(member, value)
	case "idempotencyKey":
		return e.key.set(member, value)
	case "body":
		if e.body != nil {
			return problem.InvalidField(member, "duplicate member")
		}
		e.body = value
	default:
		for _, known := range []string{"operation", "idempotencyKey", "body"} {
			if strings.EqualFold(member, known) {
				return problem.InvalidField(known, "the name must be spelled exactly so, and case matters")
			}
		}
	}
	return nil
}

func (t *textMember) set(member string, value jsontext.Value) error {
	if t.given {
		return problem.InvalidField(member, "duplicate member")
	}
	t.given = true
	if value.Kind() == '"' {
		unquoted, err := jsontext.AppendUnquote(nil, value)
		t.isText, t.value = err == nil, string(unquoted)
	}
	return nil
}

// notJSON refuses a line that is not JSON.
func notJSON(err error) *problem.Error {
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return problem.MalformedBody(
			fmt.Sprintf("The line is not valid JSON: %v at byte %d.", syntax.Err, syntax.ByteOffset))
	}
	return problem.MalformedBody("The line is not valid JSON: it ends too early.")
}
