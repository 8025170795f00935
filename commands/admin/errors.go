package admin

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"novelgate/aggregates/author"
	"novelgate/aggregates/integration"
	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/commands/problem"
	"novelgate/commands/request"
	"novelgate/commands/staff"
	"novelgate/events/eventlog"
)

// toProblem is the one place where errors of staff commands become what a client sees.
func toProblem(err error) *problem.Error {
	var refused *problem.Error
	var transition *novel.TransitionError
	var edit *novel.EditError
	var ofAuthor *author.TransitionError
	var ofPost *post.TransitionError
	var limit *integration.LimitError
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &transition):
		return problem.InvalidTransition(string(transition.From), string(transition.To))
	case errors.As(err, &edit):
		return problem.Conflict(sentence(edit))
	case errors.As(err, &ofAuthor):
		return problem.InvalidTransition(string(ofAuthor.From), string(ofAuthor.To)).WithDetail(sentence(ofAuthor))
	case errors.As(err, &ofPost):
		return problem.InvalidTransition(string(ofPost.From), string(ofPost.To)).WithDetail(sentence(ofPost))
	case errors.Is(err, staff.ErrNameTaken):
		return problem.Conflict("An integration of this name exists already.")
	case errors.Is(err, integration.ErrKeyRevoked):
		return problem.Conflict("The key is revoked already.")
	case errors.Is(err, integration.ErrNotFound), errors.Is(err, integration.ErrKeyNotFound),
		errors.Is(err, staff.ErrNoSuchNovel):
		return problem.NotFound().WithDetail("There is no such integration, key or novel.")
	case errors.Is(err, staff.ErrNoSuchAuthor):
		return problem.NotFound().WithDetail("This author has not commented, and nothing was decided about them.")
	case errors.Is(err, post.ErrNotFound):
		return problem.NotFound().WithDetail("There is no such post.")
	case errors.Is(err, author.ErrUUIDInvalid):
		return invalid("uuid", err)
	case errors.Is(err, author.ErrMemberInvalid):
		return invalid("memberId", err)
	case errors.Is(err, integration.ErrNameInvalid), errors.Is(err, integration.ErrNameReserved):
		return invalid("name", err)
	case errors.Is(err, integration.ErrCapability):
		return invalid("capabilities", err)
	case errors.As(err, &limit):
		return invalidLimits(limit.Operations)
	case errors.Is(err, integration.ErrExpiryPassed):
		return invalid("expiresInSeconds", err)
	case errors.Is(err, staff.ErrReasonRequired), errors.Is(err, staff.ErrReasonInvalid):
		return invalid("reason", err)
	case errors.Is(err, staff.ErrTitleInvalid):
		return invalid("novel", err)
	case errors.Is(err, staff.ErrNotSealed):
		return problem.Unavailable(time.Second).WithCause(err)
	case eventlog.IsConflict(err), eventlog.IsAway(err):
		return problem.Unavailable(time.Second).WithCause(err)
	default:
		return problem.Internal(err)
	}
}

// sentence makes a sentence of an error.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

func invalid(field string, err error) *problem.Error {
	return problem.InvalidRequest(problem.FieldError{Field: field, Message: err.Error()})
}

func invalidLimits(operations []integration.Capability) *problem.Error {
	fields := make([]problem.FieldError, len(operations))
	for i, operation := range operations {
		fields[i] = problem.FieldError{Field: string(operation) + "PerMinute", Message: integration.ErrLimit.Error()}
	}
	return problem.InvalidRequest(fields...)
}

// malformed describes a body that cannot be decoded, and names the member where there is one.
func malformed(err error) *problem.Error {
	var semantic *json.SemanticError
	if errors.As(err, &semantic) {
		if field := fieldAt(semantic.JSONPointer); field != "" {
			return problem.InvalidRequest(problem.FieldError{Field: field, Message: mistyped(semantic)})
		}
		return problem.MalformedBody("The request body must be a JSON object.")
	}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		if field := syntactic.JSONPointer.LastToken(); field != "" && errors.Is(err, jsontext.ErrDuplicateName) {
			return problem.InvalidRequest(problem.FieldError{Field: field, Message: "duplicate member"})
		}
		return problem.MalformedBody(fmt.Sprintf("The request body is not valid JSON: %v at byte %d.", syntactic.Err,
			syntactic.ByteOffset))
	}
	return problem.MalformedBody("The request body is not valid JSON.")
}

// fieldAt names a member of the body; an entry of a list is "capabilities[0]".
func fieldAt(pointer jsontext.Pointer) string {
	field := ""
	for token := range pointer.Tokens() {
		if field != "" {
			token = "[" + token + "]"
		}
		field += token
	}
	return field
}

// mistyped says what a member should have been, in the words of JSON.
func mistyped(err *json.SemanticError) string {
	switch {
	case errors.Is(err, json.ErrUnknownName):
		return "unknown member"
	case errors.Is(err, strconv.ErrRange):
		return "is out of range"
	}
	want := "a whole number"
	switch err.GoType.Kind() { //nolint:exhaustive // no member is of another type
	case reflect.String:
		want = "a string"
	case reflect.Bool:
		want = "a boolean"
	case reflect.Slice:
		want = "an array"
	default:
		if err.JSONKind == '0' {
			return "must be a whole number, without fraction and exponent"
		}
	}
	return "must be " + want + ", got " + request.Describe(err.JSONKind)
}
