package commands

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"novelgate/commands/problem"
	"novelgate/commands/ratelimit"
)

// Limits of one reconciliation.
const (
	maxReconcileBody = 512 << 10 // bytes
	maxReconcileKeys = 1_000
	maxFieldErrors   = 20 // that are told of at once
)

// reconcileAnswer says which deliveries have to be sent again.
type reconcileAnswer struct {
	Missing []string `json:"missing"` // as sent, in the order sent, each once
	Present int      `json:"present"` // different keys that are on record
}

//go:embed self_reconcile.sql
var reconcileSQL string

// reconcile handles POST /api/integrations/deliveries/reconcile.
func (a *API) reconcile(ctx context.Context, in *inquiry) (any, error) {
	question, err := decodeReconcile(in.body)
	if err != nil {
		return nil, err // already a problem
	}
	rows, err := a.Records.Query(ctx, reconcileSQL, question.keys, sourceOf(question.operation, in.IntegrationID))
	if err != nil {
		return nil, readProblem(fmt.Errorf("reconcile deliveries: %w", err))
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, readProblem(fmt.Errorf("reconcile deliveries: %w", err))
	}
	onRecord := make(map[string]bool, len(found))
	for _, key := range found {
		onRecord[key] = true
	}
	answer := reconcileAnswer{Present: len(onRecord)}
	for i, key := range question.keys {
		if !onRecord[key] {
			answer.Missing = append(answer.Missing, question.sent[i])
		}
	}
	return answer, nil
}

// reconcileQuestion is a validated body: different keys, and beside each how it was first sent.
type reconcileQuestion struct {
	operation  ratelimit.Operation
	keys, sent []string
}

const (
	operationMember = "operation"
	keysMember      = "idempotencyKeys"
)

// decodeReconcile reads and checks a body as strictly as those of the commands. The error is a *problem.Error.
func decodeReconcile(body []byte) (reconcileQuestion, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(body, &members); err != nil {
		return reconcileQuestion{}, malformedReconcile(err)
	}
	if members == nil {
		return reconcileQuestion{}, problem.MalformedBody("The request body must be a JSON object, but it is null.")
	}
	var question reconcileQuestion
	var wrong []problem.FieldError
	for _, known := range []string{operationMember, keysMember} {
		for name := range members {
			if name != known && strings.EqualFold(name, known) {
				wrong = append(wrong,
					problem.FieldError{Field: name, Message: fmt.Sprintf("unknown member: the name is %q, and case matters", known)})
			}
		}
	}
	var name string
	if raw := members[operationMember]; raw.Kind() == '"' && json.Unmarshal(raw, &name) == nil {
		var ok bool
		if question.operation, ok = parseOperation(name); !ok {
			wrong = append(wrong, problem.FieldError{Field: operationMember, Message: operationWanted})
		}
	} else {
		wrong = append(wrong, problem.FieldError{Field: operationMember, Message: "is required and " + operationWanted})
	}
	wrong = append(wrong, question.readKeys(members[keysMember])...)
	if len(wrong) > 0 {
		return reconcileQuestion{}, problem.InvalidRequest(wrong[:min(len(wrong), maxFieldErrors)]...)
	}
	return question, nil
}

// readKeys reads the list of keys and returns what is wrong with it.
func (q *reconcileQuestion) readKeys(raw jsontext.Value) []problem.FieldError {
	var entries []jsontext.Value
	if raw.Kind() != '[' || json.Unmarshal(raw, &entries) != nil {
		return []problem.FieldError{{Field: keysMember, Message: "is required and must be an array of strings"}}
	}
	if n := len(entries); n < 1 || n > maxReconcileKeys {
		return []problem.FieldError{{Field: keysMember, Message: fmt.Sprintf("must have 1 to 1,000 entries, got %d", n)}}
	}
	var wrong []problem.FieldError
	seen := make(map[string]bool, len(entries))
	for i, entry := range entries {
		field := fmt.Sprintf("%s[%d]", keysMember, i)
		var sent string
		if entry.Kind() != '"' || json.Unmarshal(entry, &sent) != nil {
			wrong = append(wrong, problem.FieldError{Field: field, Message: "must be a string"})
			continue
		}
		key, message := parseKey(sent)
		switch {
		case message != "":
			wrong = append(wrong, problem.FieldError{Field: field, Message: message})
		case !seen[key]:
			seen[key] = true
			q.keys, q.sent = append(q.keys, key), append(q.sent, sent)
		}
	}
	return wrong
}

// malformedReconcile describes a body that is not a JSON object, and names the member that it is broken in.
func malformedReconcile(err error) error {
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return problem.MalformedBody("The request body must be a JSON object.").WithCause(err)
	}
	member := ""
	for member = range syntax.JSONPointer.Tokens() {
		break
	}
	reason := fmt.Sprintf("%v at byte %d", syntax.Err, syntax.ByteOffset)
	if slices.Contains([]string{operationMember, keysMember}, member) {
		return problem.InvalidRequest(problem.FieldError{Field: member, Message: "not valid JSON: " + reason}).WithCause(err)
	}
	return problem.MalformedBody("The request body is not valid JSON: " + reason + ".").WithCause(err)
}
