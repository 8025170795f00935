package refusals

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"novelgate/commands/request"
	"novelgate/internal/auth"
	"novelgate/internal/problem"
	"novelgate/internal/title"
	"novelgate/internal/web"
)

// Refusal is a refused command.
type Refusal struct {
	ID             uuid.UUID    `json:"refusalId"`
	RefusedAt      time.Time    `json:"refusedAt"`
	RequestID      string       `json:"requestId"`
	Operation      string       `json:"operation"`
	IdempotencyKey *string      `json:"idempotencyKey"` // nil without a valid one
	Code           problem.Code `json:"code"`
	Field          *string      `json:"field"` // the first invalid one; nil without one
	Detail         string       `json:"detail"`
}

// Operations are the operations of refusals. bulk is a request in bulk as a whole, or a line that names no operation.
func Operations() []string {
	return []string{"novels", "posts", "edits", "withdrawals", "reports", "bulk"}
}

// maxDetail is the maximum length of a detail, in characters.
const maxDetail = 300

// newRefusal returns the record of a refusal.
func newRefusal(at time.Time, r web.Refusal) Refusal {
	kept := Refusal{
		ID: uuid.Must(uuid.NewV7()), RefusedAt: at.UTC(), RequestID: auth.Redact(r.RequestID), Operation: r.Operation,
		Code: r.Problem.Code,
	}
	if key := auth.Redact(r.Key); key != "" {
		kept.IdempotencyKey = &key
	}
	kept.Detail = withoutQuotes(r.Problem.Detail)
	if fields := r.Problem.Fields; len(fields) > 0 {
		kept.Detail = withoutQuotes(fields[0].Message)
		if name, _, _ := strings.Cut(fields[0].Field, "["); isMember(name) {
			kept.Field = &fields[0].Field
		}
		if more := len(fields) - 1; more > 0 {
			kept.Detail += fmt.Sprintf(" (%d more)", more)
		}
	}
	return kept
}

// members are the names that a field may have. A client can send any other name, such as that of a person.
var members = slices.Concat(request.NovelMembers, request.PostMembers, request.EditMembers, request.ReportMembers,
	[]string{"operation", "idempotencyKey", "post", "body"})

func isMember(name string) bool {
	return slices.ContainsFunc(members, func(known string) bool { return strings.EqualFold(name, known) })
}

// quoted matches what messages quote of a request: text in double quotes, with escapes as Go writes them, and the rest
// of the message after "got", or after a colon that introduces HTML.
var quoted = regexp.MustCompile(`(?s)(, got|HTML:) .*|"(?:[^"\\]|\\.)*"`)

// withoutQuotes returns a message without what it quotes of the request, because that is personal data.
func withoutQuotes(message string) string {
	text := quoted.ReplaceAllStringFunc(message, func(match string) string {
		switch {
		case strings.HasPrefix(match, ", got"):
			return ""
		case strings.HasPrefix(match, "HTML"):
			return "HTML"
		default:
			return "…"
		}
	})
	return title.Clip(strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "?"), maxDetail)
}
