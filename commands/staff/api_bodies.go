package staff

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"

	"novelgate/internal/web"
)

// withBody returns an operation whose body is decoded strictly. null is refused, because it would count as omitted,
// which is not what the client means.
func withBody[B any](execute func(ctx context.Context, c *call, body B) (*web.Answer, error)) operation {
	return func(ctx context.Context, c *call) (*web.Answer, error) {
		var body B
		if err := web.Decode(c.Body, &body); err != nil {
			return nil, err
		}
		return execute(ctx, c, body)
	}
}

// reasonBody is the body of requests with a reason only, such as approve, hide and block.
type reasonBody struct {
	Reason string `json:"reason"`
}

// moderate returns the operation that executes a command on the object in the path. name returns the identifier of the
// object. For a retry, current returns the present state of the object.
func moderate[N, T any](
	name func(c *call) N, command func(s *Staff, ctx context.Context, name N, reason string) (T, error),
	current func(s *Staff, ctx context.Context, name N) (T, error),
) operation {
	return withBody(func(ctx context.Context, c *call, body reasonBody) (*web.Answer, error) {
		result, err := command(c.staff, ctx, name(c), body.Reason)
		return c.commandAnswer(http.StatusOK, result, err,
			func(uuid.UUID) (any, error) { return current(c.staff, ctx, name(c)) })
	})
}

// answer returns the answer with the result of an operation.
func answer(body any, err error) (*web.Answer, error) {
	return &web.Answer{Body: body}, err
}

// commandAnswer returns the answer to a command: its result or, for a retry, the present state of the object, which
// current reads.
func (c *call) commandAnswer(
	status int, result any, err error, current func(stream uuid.UUID) (any, error),
) (*web.Answer, error) {
	var replayed *ReplayedError
	if !errors.As(err, &replayed) {
		return &web.Answer{Status: status, Body: result}, err
	}
	web.SetReplayed(c.Writer.Header(), true, replayed.Mismatch)
	return answer(current(replayed.StreamID))
}
