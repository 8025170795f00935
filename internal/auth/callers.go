package auth

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"novelgate/internal/problem"
	"novelgate/internal/web"
)

// Callers admits the requests of one kind of caller. All routes of a kind share one Callers, because a caller has one
// semaphore. Create it with NewPartners or NewStaff.
type Callers[C Caller] struct {
	*web.Kit

	// Headers sets the headers that every answer to an authenticated caller has; nil: none.
	Headers func(h http.Header, caller C)

	authenticate func(ctx context.Context, key string) (C, error)
	running      semaphores
}

// Caller is the owner of an API key: an *Integration or a *StaffUser.
type Caller interface {
	callerID() uuid.UUID
	// refused returns why the caller may call no route at all; nil: it may.
	refused() error
}

// Partners admits the requests of integrations.
type Partners = Callers[*Integration]

// Staff admits the requests of staff and auditors.
type Staff = Callers[*StaffUser]

func (i *Integration) callerID() uuid.UUID { return i.IntegrationID }

func (i *Integration) refused() error {
	if !i.Enabled {
		return problem.New(problem.CodeCapabilityDisabled, "This integration is disabled.")
	}
	return nil
}

func (u *StaffUser) callerID() uuid.UUID { return u.ID }

func (*StaffUser) refused() error { return nil }

// NewPartners returns the Callers for integrations. authenticate is that of Keys.
func NewPartners(
	kit *web.Kit, authenticate func(ctx context.Context, key string) (*Integration, error),
) *Partners {
	return &Partners{Kit: kit, authenticate: func(ctx context.Context, key string) (*Integration, error) {
		found, err := authenticate(ctx, key)
		return found, refusal(err)
	}}
}

// NewStaff returns the Callers for staff and auditors. The key of an integration is refused with 403.
func NewStaff(kit *web.Kit, keys interface {
	Authenticate(ctx context.Context, key string) (*Integration, error)
	AuthenticateStaffUser(ctx context.Context, key string) (*StaffUser, error)
},
) *Staff {
	return &Staff{Kit: kit, authenticate: func(ctx context.Context, key string) (*StaffUser, error) {
		found, err := keys.AuthenticateStaffUser(ctx, key)
		if errors.Is(err, ErrMalformed) { // also returned for a key of another kind
			if _, err = keys.Authenticate(ctx, key); err == nil {
				return nil, problem.New(problem.CodeForbidden,
					"This key belongs to an integration. This operation is for staff and auditors.")
			}
		}
		return found, refusal(err)
	}}
}

// refusal returns the problem for an error of Keys.
func refusal(err error) error {
	switch {
	case errors.Is(err, ErrMalformed), errors.Is(err, ErrUnknown):
		return problem.New(problem.CodeUnauthorized, "The API key is not valid.")
	case errors.Is(err, ErrExpired):
		return problem.New(problem.CodeUnauthorized, "The API key has expired.")
	default:
		return err
	}
}

// Route is what a request needs before its operation runs.
type Route[C Caller] struct {
	// Command is the name of a command: the request has an Idempotency-Key, and takes one permit of its caller instead of
	// those of a query. "": it is none.
	Command string
	// Refusals is the name under which refused requests are logged and recorded; those of a command always are, under its
	// own. "": they are not.
	Refusals string
	// MaxBody is the largest JSON body in bytes; 0 for a route without a body, or one whose operation reads it.
	MaxBody int64
	// MediaType is the type of a body that the operation reads; "": there is none.
	MediaType string
	// Allowed refuses callers who may not use the route; nil: all may.
	Allowed func(caller C) error
	// Headers takes the place of Callers.Headers.
	Headers func(h http.Header, caller C)
}

// Call is a request that Callers has admitted.
type Call[C Caller] struct {
	Caller     C
	Request    *http.Request
	Writer     http.ResponseWriter
	ReceivedAt time.Time
	Key        string // Idempotency-Key of a command
	Body       []byte // of a route with MaxBody

	callers *Callers[C]
	route   *Route[C]
}

// StillAllowed checks the key again. A stream calls it, so that a revocation ends it.
func (c *Call[C]) StillAllowed(ctx context.Context) error {
	if err := c.findCaller(ctx); err != nil {
		return err
	}
	return c.allowed()
}

// findCaller sets Caller.
func (c *Call[C]) findCaller(ctx context.Context) error {
	key, err := web.Bearer(c.Request.Header)
	if err != nil {
		return err
	}
	caller, err := c.callers.authenticate(ctx, key)
	if err != nil {
		return err
	}
	c.Caller = caller
	return nil
}

// allowed refuses a Caller who may not use the route.
func (c *Call[C]) allowed() error {
	if err := c.Caller.refused(); err != nil || c.route.Allowed == nil {
		return err
	}
	return c.route.Allowed(c.Caller)
}

// Operation executes a request. Without an answer and an error it has sent its answer itself.
type Operation[C Caller] func(ctx context.Context, call *Call[C]) (*web.Answer, error)

// Handle serves a route. The checks run in this order: key (401), semaphore (429), media type (415), size (413), what
// the caller may do (403), Idempotency-Key (400). All others are the operation's.
func (c *Callers[C]) Handle(route Route[C], operation Operation[C]) http.Handler {
	if route.Headers == nil {
		route.Headers = func(h http.Header, caller C) {
			if c.Headers != nil {
				c.Headers(h, caller)
			}
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := c.WithTimeout(r.Context())
		defer cancel()
		call := &Call[C]{Request: r, Writer: w, ReceivedAt: c.Now(), callers: c, route: &route}
		id := uuid.Nil // requests without a valid key share a semaphore
		unknown := call.findCaller(ctx)
		if unknown == nil {
			id = call.Caller.callerID()
		}
		release, err := c.running.acquire(ctx, id, unknown == nil && route.Command == "")
		var keep time.Duration
		defer func() { release(keep) }() // an operation may panic
		var answer *web.Answer
		switch {
		case unknown != nil:
			err = unknown
		case err != nil:
			route.Headers(w.Header(), call.Caller)
			err = problem.TooManyRequests(web.RetryAfter).WithCause(err)
		default:
			answer, err = c.execute(ctx, call, operation)
		}
		if err == nil && answer != nil {
			err = answer.Send(w)
		}
		if err != nil {
			code := c.Fail(w, r, err)
			if name := cmp.Or(route.Command, route.Refusals); name != "" {
				key, _ := web.IdempotencyKey(r.Header)
				c.LogRefusal(ctx, web.Refusal{
					RequestID: web.RequestID(r.Context()), Integration: id, Operation: name,
					Problem: c.Problem(err), Key: Redact(key),
				})
			}
			switch code {
			case problem.CodeUnauthorized, problem.CodeForbidden, problem.CodeCapabilityDisabled, problem.CodeRateLimited:
				keep = refusalTime
			}
		}
	})
}

// bodyGrace is the time in which a body normally arrives. If it takes longer, the time-out of the request begins after
// it, because the client is slow and not the service, and the key is checked again.
const bodyGrace = 50 * time.Millisecond

// execute checks what comes after the semaphore, and runs the operation. The headers of a command come last, because
// they count its own permit; those of a stream must come first.
func (c *Callers[C]) execute(
	ctx context.Context, call *Call[C], operation Operation[C],
) (_ *web.Answer, err error) {
	route := call.route
	if route.Command != "" {
		defer func() { route.Headers(call.Writer.Header(), call.Caller) }()
	} else {
		route.Headers(call.Writer.Header(), call.Caller)
	}
	if sent := call.Request.Header.Get("Content-Type"); route.MediaType != "" &&
		!web.IsMediaType(sent, route.MediaType) {
		return nil, problem.UnsupportedMediaType(route.MediaType, sent)
	}
	if route.MaxBody > 0 {
		start := c.Now()
		if call.Body, err = web.ReadJSON(call.Writer, call.Request, route.MaxBody); err != nil {
			return nil, err
		}
		if c.Now().Sub(start) > bodyGrace {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), c.Timeout-start.Sub(call.ReceivedAt))
			defer cancel()
			if err := call.findCaller(ctx); err != nil {
				return nil, err
			}
		}
	}
	if err := call.allowed(); err != nil {
		return nil, err
	}
	if route.Command != "" {
		if call.Key, err = web.IdempotencyKey(call.Request.Header); err != nil {
			return nil, err
		}
	}
	return operation(ctx, call)
}
