package admin

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"novelgate/aggregates/principal"
	"novelgate/commands/access"
	"novelgate/commands/request"
	"novelgate/commands/staff"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// maxBody is the largest request body, in bytes.
const maxBody = 32 << 10

// call is one request of a member of staff.
type call struct {
	*http.Request
	query   *httpkit.Query
	staff   *staff.Staff
	caller  *access.StaffUser
	body    []byte
	bodyErr error // body could not be read
}

// output is a successful response. Without a body the status is 204.
type output struct {
	status   int
	body     any
	replayed bool // the request is a retry
	mismatch bool // the key was used before for a different command
}

// operation executes a request.
type operation func(ctx context.Context, c *call) (*output, error)

// handler serves an operation to staff, whose query has no other parameters than known. The checks run in this order:
// key (401, 403), query, and then, in the operation, idempotency key and body. The body is read before all checks, so
// that a slow one does not take the place of another request.
func (a *API) handler(op operation, known ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := a.authenticate(r)
		if err != nil {
			a.Fail(w, r, err)
			return
		}
		c := &call{caller: caller}
		c.body, c.bodyErr = a.ReadJSON(w, r, uuid.Nil, maxBody)
		defer a.ReleaseBody(uuid.Nil, c.body)
		a.Staff.Limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c.Request = r
			a.serve(r.Context(), w, c, op, known)
		}), a.Refuse).ServeHTTP(w, r)
	})
}

// authenticate returns the member of staff whose key is in the request, and refuses all other keys.
func (a *API) authenticate(r *http.Request) (*access.StaffUser, error) {
	ctx, cancel := a.WithTimeout(r.Context())
	defer cancel()
	caller, err := AuthenticateStaffUser(ctx, a.Keys, r.Header, "staff key", "staff")
	if err == nil && caller.Role != principal.Staff {
		err = problem.Forbidden("This key belongs to an auditor. This operation is for staff.")
	}
	if err != nil {
		a.Hold(ctx, uuid.Nil, err)
	}
	return caller, err
}

// serve executes an operation and sends the response.
func (a *API) serve(ctx context.Context, w http.ResponseWriter, c *call, op operation, known []string) {
	ctx, cancel := a.WithTimeout(ctx)
	defer cancel()
	var out *output
	var encoded []byte
	if err := a.Staff.Make(ctx, func() (err error) {
		if c.query, err = httpkit.ReadStrictQuery(c.URL, known...); err != nil {
			return err //nolint:wrapcheck // already a problem
		}
		c.staff = &staff.Staff{Pool: a.Pool, Actor: "staff:" + c.caller.Name, Now: a.Now}
		if out, err = op(ctx, c); err == nil {
			encoded, err = json.Marshal(out.body)
		}
		return err //nolint:wrapcheck // operations say what they did
	}); err != nil {
		a.Fail(w, c.Request, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store") // a response may contain a key
	httpkit.SetReplayed(w.Header(), out.replayed, out.mismatch)
	if out.body == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(out.status)
	_, _ = w.Write(encoded) // the client closed the connection
}

// deliver makes the command of a request idempotent by its Idempotency-Key. The scope of a key is the staff user, the
// operation and its subject.
func (c *call) deliver(operation string) error {
	key, err := request.IdempotencyKey(c.Header)
	if err != nil {
		return err //nolint:wrapcheck // already a problem
	}
	c.staff.Delivery = &staff.Delivery{Key: key, Source: "staff/" + c.caller.ID.String() + "/" + operation}
	return nil
}

// id returns an identifier from the path.
func (c *call) id(name string) (uuid.UUID, error) { return httpkit.PathID(c.Request, name) }

// body is the JSON object of a request.
type body interface {
	// members returns the names of the members, in the order of the documentation.
	members() []string
	// read reads the members.
	read(o *httpkit.Object)
}

// normalised is implemented by bodies that have several forms of the same command.
type normalised interface {
	// canonical returns an equal value for all of these forms.
	canonical() any
}

// decode reads a body strictly; every error names the member. The body is also the delivery's canonical command.
func (c *call) decode(b body) error {
	if c.bodyErr != nil {
		return c.bodyErr
	}
	// null is refused: it would count as omitted, which is not what the client means.
	o := httpkit.Object{Strict: true, NoNull: true}
	if err := o.Parse(c.body, b.members()); err != nil {
		return err //nolint:wrapcheck // already a problem
	}
	if b.read(&o); o.Err() != nil {
		return o.Err() //nolint:wrapcheck // already a problem
	}
	if c.staff.Delivery == nil {
		return nil
	}
	command := any(b)
	if n, ok := b.(normalised); ok {
		command = n.canonical()
	}
	var err error
	c.staff.Delivery.Canonical, err = json.Marshal(command, json.Deterministic(true))
	return err //nolint:wrapcheck // a defect
}

// commandOutput returns the response to a command: its result or, for a retry, the current state.
func commandOutput[T any](status int, made T, err error, now func(*staff.ReplayedError) (T, error)) (*output, error) {
	var replayed *staff.ReplayedError
	if !errors.As(err, &replayed) {
		return &output{status: status, body: made}, err
	}
	found, err := now(replayed)
	return &output{status: http.StatusOK, body: found, replayed: true, mismatch: replayed.Mismatch}, err
}

// The sizes of pages.
const (
	defaultPage = 50
	maxPage     = 500
)

// page is one page of a list. NextCursor is null on the last page.
type page struct {
	Items      []jsontext.Value `json:"items"`
	NextCursor *string          `json:"nextCursor"`
}

// limit returns the requested number of items of a page.
func (c *call) limit() int { return c.query.Limit(defaultPage, maxPage) }

// The names of lists in cursors: a letter and, for a list of one integration, its id. The place in a cursor is the sort
// key of the page's last item.
const (
	novelList       = "t" // by title
	integrationList = "i"
)

func keyList(integrationID uuid.UUID) string    { return "k" + string(integrationID[:]) }
func authorList(integrationID uuid.UUID) string { return "a" + string(integrationID[:]) }

// textCursor returns the text, such as a folded title, after which a page begins; "" for the first page.
func (c *call) textCursor(list string) string {
	after := c.query.Cursor(list)
	if !httpkit.IsText(after) {
		c.query.RefuseCursor()
	}
	return after
}

// placeCursor returns the place after which a page begins.
func (c *call) placeCursor(list string) staff.Place {
	after := c.query.Cursor(list)
	if after == "" {
		return staff.Place{}
	}
	if len(after) != 8+len(uuid.UUID{}) {
		c.query.RefuseCursor()
		return staff.Place{}
	}
	at := time.UnixMicro(int64(binary.BigEndian.Uint64([]byte(after[:8])))) //nolint:gosec // the bits of a signed number
	if at.Year() < 1 || at.Year() > 9999 {
		c.query.RefuseCursor() // outside the range of timestamps in the database
	}
	return staff.Place{At: at, ID: uuid.UUID([]byte(after[8:]))}
}

// byTitle returns the sort key of a novel.
func byTitle(n staff.Novel) string { return n.FoldedTitle }

// byExternalUUID returns the sort key of an author.
func byExternalUUID(a staff.Author) string { return a.ExternalUUID }

// byPlace returns the sort key of an item with a place: microseconds since 1970, big-endian, and an id.
func byPlace[T interface{ Place() staff.Place }](item T) string {
	place := item.Place()
	return string(append(binary.BigEndian.AppendUint64(nil, uint64(place.At.UnixMicro())), place.ID[:]...))
}

// pageBytes is the size at which a page is full.
const pageBytes = 512 << 10

// paginate encodes a page of a list. items holds up to limit+1 items. A page of large items is shorter.
func paginate[T any](list string, items []T, limit int, sortKey func(T) string) (*output, error) {
	response := page{Items: []jsontext.Value{}}
	size := 0
	for i, item := range items {
		if i == limit || size >= pageBytes {
			cursor := httpkit.EncodeCursor(list, sortKey(items[i-1]))
			response.NextCursor = &cursor
			break
		}
		encoded, err := json.Marshal(item)
		if err != nil {
			return nil, fmt.Errorf("encode item of a list: %w", err)
		}
		response.Items = append(response.Items, encoded)
		size += len(encoded)
	}
	return &output{status: http.StatusOK, body: response}, nil
}
