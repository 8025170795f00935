package admin

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/aggregates/person"
	"novelgate/commands"
	"novelgate/commands/access"
	"novelgate/commands/problem"
	"novelgate/commands/request"
	"novelgate/commands/staff"
)

// maxBody is the largest request body, in bytes.
const maxBody = 32 << 10

// call is a request of a member of staff on its way through an operation.
type call struct {
	*http.Request
	query  map[string]string
	staff  *staff.Staff
	caller *access.Person
	writer http.ResponseWriter
}

// output is a successful answer; without a body it is 204.
type output struct {
	status   int
	body     any
	replayed bool // the command was carried out before
	mismatch bool // … and it was another one
}

// operation carries a request out.
type operation func(ctx context.Context, c *call) (*output, error)

// handler serves an operation to staff, whose query has no other parameters than known. The checks run in this order:
// key (401, 403), query, and then, in the operation, its idempotency key and body.
func (a *API) handler(op operation, known ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), a.Timeout)
		defer cancel()
		out, err := a.carryOut(ctx, w, r, op, known)
		if err != nil {
			a.refuse(ctx, w, r, err)
			return
		}
		w.Header().Set("Cache-Control", "no-store") // an answer may hold a key
		if out.replayed {
			w.Header().Set("Idempotent-Replayed", "true")
		}
		if out.mismatch {
			w.Header().Set("Idempotency-Mismatch", "true")
		}
		if out.body == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		encoded, err := json.Marshal(out.body)
		if err != nil {
			a.refuse(ctx, w, r, problem.Internal(err))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(out.status)
		_, _ = w.Write(encoded) // a failing connection is the client's affair
	})
}

func (a *API) carryOut(
	ctx context.Context, w http.ResponseWriter, r *http.Request, op operation, known []string,
) (*output, error) {
	caller, err := AuthenticatePerson(ctx, a.Keys, r.Header, "staff key", "staff")
	if err != nil {
		return nil, err
	}
	if caller.Role != person.Staff {
		return nil, problem.Forbidden("This key belongs to an auditor. This operation is for staff.")
	}
	query, err := problem.Parameters(r.URL, func(name string) bool { return slices.Contains(known, name) })
	if err != nil {
		return nil, err
	}
	s := &staff.Staff{Pool: a.Pool, Actor: "staff:" + caller.Name, Now: a.Now}
	return op(ctx, &call{Request: r, query: query, staff: s, caller: caller, writer: w})
}

func (a *API) refuse(ctx context.Context, w http.ResponseWriter, r *http.Request, err error) {
	p := toProblem(err)
	if p.Code == problem.CodeInternal {
		a.Logger.ErrorContext(ctx, "staff request failed", slog.String("route", route(r)),
			slog.String("requestId", commands.RequestID(ctx)), slog.Any("error", err))
	}
	commands.Refuse(w, r, p)
}

// route is the template of a request's path: the path itself may name a person.
func route(r *http.Request) string {
	if matched := mux.CurrentRoute(r); matched != nil {
		if template, err := matched.GetPathTemplate(); err == nil {
			return template
		}
	}
	return ""
}

// deliver makes the command of a request idempotent by its Idempotency-Key. Keys are scoped to the person and to the
// operation and what it is about.
func (c *call) deliver(operation string) error {
	key, err := request.ParseIdempotencyKey(c.Header)
	if err != nil {
		return err // already a problem
	}
	c.staff.Delivery = &staff.Delivery{Key: key, Source: "staff/" + c.caller.PersonID.String() + "/" + operation}
	return nil
}

// id returns an identifier from the path.
func (c *call) id(name string) (uuid.UUID, error) {
	id, err := uuid.Parse(mux.Vars(c.Request)[name])
	if err != nil {
		return uuid.Nil, problem.NotFound().WithDetail("The " + name + " in the address is not a UUID.")
	}
	return id, nil
}

// normalised is implemented by bodies of which several mean the same command.
type normalised interface {
	// canonical returns what is equal for two of those.
	canonical() any
}

// decode reads a JSON body strictly: every error names the member. The command of a delivery is its body.
func (c *call) decode(target any) error {
	body, err := c.read()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, target, json.RejectUnknownMembers(true)); err != nil {
		return malformed(err)
	}
	if err := withoutNulls(body, target); err != nil {
		return err
	}
	if c.staff.Delivery == nil {
		return nil
	}
	command := target
	if n, ok := target.(normalised); ok {
		command = n.canonical()
	}
	if c.staff.Delivery.Canonical, err = json.Marshal(command, json.Deterministic(true)); err != nil {
		return problem.Internal(err)
	}
	return nil
}

// nullable is implemented by bodies with members in which null means something.
type nullable interface {
	// nulls returns the names of these.
	nulls() []string
}

// withoutNulls refuses null, which would count as left out: staff who send it mean something else by it.
func withoutNulls(body []byte, target any) error {
	var known []string
	if n, ok := target.(nullable); ok {
		known = n.nulls()
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(body, &members); err != nil {
		return malformed(err)
	}
	if members == nil {
		return problem.MalformedBody("The request body must be a JSON object.")
	}
	var wrong []problem.FieldError
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if members[name].Kind() == 'n' && !slices.Contains(known, name) {
			wrong = append(wrong, problem.FieldError{Field: name, Message: "must not be null"})
		}
	}
	if wrong != nil {
		return problem.InvalidRequest(wrong...)
	}
	return nil
}

// read reads the bytes of a JSON body.
func (c *call) read() ([]byte, error) {
	if mediaType, _, _ := strings.Cut(c.Header.Get("Content-Type"),
		";"); strings.TrimSpace(mediaType) != "application/json" {
		return nil, problem.UnsupportedMediaType(c.Header.Get("Content-Type"))
	}
	return request.ReadBody(c.writer, c.Request, maxBody) // an error is a problem already
}
