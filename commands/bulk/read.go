package bulk

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"novelgate/commands"
	"novelgate/commands/ratelimit"
	"novelgate/commands/request"
	"novelgate/internal/auth"
	"novelgate/internal/problem"
	"novelgate/internal/web"
)

// line is a line of a request: a command, or the reason why it is none.
type line struct {
	Line       // without the command when its outcome is known
	number int // in the request; the first is 1

	// before must be on record before this line: the parent of a reply, the comment of a change, or the last upsert of a
	// novel before this one.
	before *line
	index  int            // in the answer
	ended  bool           // its outcome is known
	failed *problem.Error // its outcome, if it is a refusal
}

// Line is a command. Its members that could not be read are empty.
type Line struct {
	Operation ratelimit.Operation
	Key       string
	Novel     *request.Novel // of an upsert
	Post      *request.Post  // of a comment
	Comment   string         // key of the comment of an edit or a withdrawal; "" in other commands
	Edit      *request.Edit
}

var errLongLine = problem.PayloadTooLarge(request.MaxBody).WithDetail(
	fmt.Sprintf("The line is longer than %d bytes.", maxLine))

// readLines reads the lines of a body. Blank lines have a number, but no outcome.
func readLines(body io.Reader, receivedAt time.Time, caller *auth.Integration) (lines []*line, err error) {
	from := bufio.NewReaderSize(body, maxLine+len("\n"))
	for number := 1; ; number++ {
		raw, err := from.ReadSlice('\n')
		isLong := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = from.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err // the caller distinguishes the errors
		}
		// Files that were joined may have byte order marks in the middle.
		raw = bytes.TrimSpace(bytes.TrimPrefix(raw, []byte("\ufeff")))
		if len(raw) > 0 {
			if len(lines) == maxLines {
				return nil, errTooLarge
			}
			l := &line{number: number, index: len(lines)}
			var wrong error = errLongLine
			if !isLong {
				l.Line, wrong = ParseLine(raw, receivedAt, func(o ratelimit.Operation) error { return allowed(caller, o) })
			}
			if wrong != nil {
				l.fail(problem.From(wrong))
			}
			lines = append(lines, l)
		}
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
	}
}

func (l *line) fail(p *problem.Error) { l.ended, l.failed = true, p }

// members are the members of a line. Others are ignored.
var members = []string{"operation", "idempotencyKey", "body", "post"}

// ParseLine reads {"operation":"posts"|"novels","idempotencyKey":"…","body":{…}},
// {"operation":"edits","idempotencyKey":"…","post":"…","body":{…}} or
// {"operation":"withdrawals","idempotencyKey":"…","post":"…"} with the checks of the live interface, in their order;
// allowed checks the capability. The error is a *problem.Error.
func ParseLine(raw []byte, receivedAt time.Time, allowed func(ratelimit.Operation) error) (l Line, err error) {
	if len(raw) > maxLine {
		return l, errLongLine
	}
	values, err := split(raw)
	if err != nil {
		return l, err
	}
	operation, _ := text(values[0])
	key, isText := text(values[1])
	key, wrong := web.ParseKey(key)
	if wrong == "" {
		l.Key = key
	}
	body := values[2]
	switch l.Operation = ratelimit.Operation(operation); {
	case !slices.Contains(operations, l.Operation):
		l.Operation = ""
		wrong := "must be novels, posts, edits or withdrawals"
		if operation != "" {
			wrong += fmt.Sprintf(", got %q", web.Clip(operation))
		}
		return l, problem.InvalidField("operation", wrong)
	case len(body) > request.MaxBody:
		return l, problem.PayloadTooLarge(request.MaxBody)
	}
	if err := allowed(l.Operation); err != nil {
		return l, err
	}
	switch {
	case values[1] == nil:
		return l, problem.New(problem.CodeInvalidIdempotencyKey, "The idempotencyKey is missing.")
	case !isText:
		return l, problem.New(problem.CodeInvalidIdempotencyKey, "The idempotencyKey must be a string.")
	case wrong != "":
		return l, problem.New(problem.CodeInvalidIdempotencyKey, "The idempotencyKey "+wrong+".")
	case body == nil && l.Operation != commands.Withdrawals:
		return l, problem.InvalidField("body", "is required")
	}
	switch l.Operation {
	case ratelimit.Novels:
		novel, err := request.DecodeNovel(body)
		if err == nil {
			l.Novel = &novel
		}
		return l, err
	case ratelimit.Posts:
		post, err := request.DecodePost(body, receivedAt)
		if err == nil {
			l.Post = &post
		}
		return l, err
	}
	comment, _ := text(values[3])
	if comment, wrong = web.ParseKey(comment); wrong != "" {
		return l, problem.InvalidField("post", "must be the idempotency key of a comment: it "+wrong)
	}
	if l.Operation == commands.Edits {
		edit, err := request.DecodeEditedPost(body, receivedAt)
		if err != nil {
			return l, err
		}
		l.Edit = &edit
	}
	l.Comment = comment
	return l, nil
}

// operations are the operations of lines.
var operations = []ratelimit.Operation{ratelimit.Novels, ratelimit.Posts, commands.Edits, commands.Withdrawals}

func mayImport(caller *auth.Integration) error {
	if !caller.CanImport {
		return problem.New(problem.CodeCapabilityDisabled, "This integration lacks the capability of bulk import.")
	}
	return nil
}

// allowed checks the capability for an operation.
func allowed(caller *auth.Integration, operation ratelimit.Operation) error {
	if operation == ratelimit.Novels {
		return commands.MayCreateNovels(caller)
	}
	return commands.MayPost(caller)
}

// split returns the values of members as they were sent, nil for one that is missing. It only checks where values end,
// so that the body gets the checks, and the error, of the live interface.
func split(raw []byte) (values [4]jsontext.Value, err error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	begin, err := dec.ReadToken()
	if err == nil && begin.Kind() != '{' {
		return values, problem.MalformedBody("The line must be a JSON object.")
	}
	for err == nil && dec.PeekKind() != '}' {
		var name jsontext.Token
		if name, err = dec.ReadToken(); err != nil {
			break
		}
		member := name.String()
		var value jsontext.Value
		if value, err = dec.ReadValue(); err != nil {
			break
		}
		i := slices.IndexFunc(members, func(known string) bool { return strings.EqualFold(known, member) })
		switch {
		case i < 0:
		case members[i] != member:
			return values, problem.InvalidField(members[i], "the name must be spelled exactly so, and case matters")
		case values[i] != nil:
			return values, problem.InvalidField(member, "duplicate member")
		default:
			end := int(dec.InputOffset())
			values[i] = raw[end-len(value) : end] // the decoder's value is only valid until the next read
		}
	}
	if err == nil {
		_, err = dec.ReadToken()
	}
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return values, problem.MalformedBody(
			fmt.Sprintf("The line is not valid JSON: %v at byte %d.", syntax.Err, syntax.ByteOffset))
	}
	if err != nil {
		return values, problem.MalformedBody("The line is not valid JSON: it ends too early.")
	}
	if end := dec.InputOffset(); int(end) < len(raw) {
		return values, problem.MalformedBody(fmt.Sprintf("The JSON object ends at byte %d, but more data follows.", end))
	}
	return values, nil
}

// text returns the text of a string.
func text(value jsontext.Value) (text string, ok bool) {
	if value.Kind() != '"' {
		return "", false
	}
	unquoted, err := jsontext.AppendUnquote(nil, value)
	return string(unquoted), err == nil
}
