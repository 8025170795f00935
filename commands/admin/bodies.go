package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"novelgate/commands/staff"
	"novelgate/internal/httpkit"
)

// body is the JSON object of a request.
type body interface {
	// members returns the names of the members, in the order of the documentation.
	members() []string
	// read reads the members.
	read(o *httpkit.Object)
}

// normalised is a body in which one command can have several forms.
type normalised interface {
	// canonical returns an equal value for all of these forms.
	canonical() any
}

// withBody returns an operation whose body is decoded strictly. The body is also the delivery's canonical command.
func withBody[B any, P interface {
	*B
	body
}](execute func(ctx context.Context, c *call, b B) (*output, error)) operation {
	return func(ctx context.Context, c *call) (*output, error) {
		// null is refused where it would count as omitted, which is not what the client means.
		o := httpkit.Object{Strict: true, NoNull: true}
		var decoded B
		b := P(&decoded)
		if err := o.Parse(c.body, b.members()); err != nil {
			return nil, err
		}
		if b.read(&o); o.Err() != nil {
			return nil, o.Err()
		}
		if c.staff.Delivery != nil {
			command := any(b)
			if n, ok := command.(normalised); ok {
				command = n.canonical()
			}
			var err error
			if c.staff.Delivery.Canonical, err = json.Marshal(command, json.Deterministic(true)); err != nil {
				return nil, fmt.Errorf("normalise command: %w", err)
			}
		}
		return execute(ctx, c, decoded)
	}
}

// reasonBody is the body of requests with a reason only, such as approve, hide and block.
type reasonBody struct {
	Reason string `json:"reason"`
}

func (*reasonBody) members() []string { return []string{"reason"} }

func (r *reasonBody) read(o *httpkit.Object) { r.Reason, _ = o.Text("reason", false) }

// moderate returns the operation that executes a command on the object in the path. name returns the identifier of the
// object. For a retry, current returns the present state of the object.
func moderate[N, T any](
	name func(c *call) N, command func(s *staff.Staff, ctx context.Context, name N, reason string) (T, error),
	current func(s *staff.Staff, ctx context.Context, name N) (T, error),
) operation {
	return withBody(func(ctx context.Context, c *call, body reasonBody) (*output, error) {
		result, err := command(c.staff, ctx, name(c), body.Reason)
		return commandOutput(http.StatusOK, result, err,
			func(uuid.UUID) (T, error) { return current(c.staff, ctx, name(c)) })
	})
}

// commandOutput returns the response to a command: its result or, for a retry, the present state of the object, which
// current reads.
func commandOutput[T any](status int, result T, err error, current func(stream uuid.UUID) (T, error)) (*output, error) {
	var replayed *staff.ReplayedError
	if !errors.As(err, &replayed) {
		return &output{status: status, body: result}, err
	}
	found, err := current(replayed.StreamID)
	return &output{status: http.StatusOK, body: found, replayed: true, mismatch: replayed.Mismatch}, err
}
