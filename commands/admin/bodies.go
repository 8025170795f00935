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

// withBody returns an operation whose body is decoded strictly; every error names the member. The body is also the
// delivery's canonical command.
func withBody[B any, P interface {
	*B
	body
}](execute func(ctx context.Context, c *call, b B) (*output, error)) operation {
	return func(ctx context.Context, c *call) (*output, error) {
		if c.bodyErr != nil {
			return nil, c.bodyErr
		}
		// null is refused, because it would count as omitted, which is not what the client means.
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

// decision is the body of requests with a reason only, such as approve, reject and publish.
type decision struct {
	Reason string `json:"reason"`
}

func (*decision) members() []string { return []string{"reason"} }

func (d *decision) read(o *httpkit.Object) { d.Reason, _ = o.Text("reason", false) }

// decide returns the operation that decides about the object in the path. subject returns the identifier of the object,
// and command executes the decision. For a retry, current returns the present state of the object.
func decide[S, T any](
	subject func(c *call) S, command func(s *staff.Staff, ctx context.Context, of S, reason string) (T, error),
	current func(s *staff.Staff, ctx context.Context, of S) (T, error),
) operation {
	return withBody(func(ctx context.Context, c *call, body decision) (*output, error) {
		result, err := command(c.staff, ctx, subject(c), body.Reason)
		return commandOutput(http.StatusOK, result, err,
			func(uuid.UUID) (T, error) { return current(c.staff, ctx, subject(c)) })
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

// The sizes of pages.
const (
	defaultPage = 50        // items
	maxPage     = 500       // items
	pageBytes   = 512 << 10 // a page of at least this size takes no further item
)

// page is one page of a list. NextCursor is null on the last page.
type page struct {
	Items      []jsontext.Value `json:"items"`
	NextCursor *string          `json:"nextCursor"`
}

// Names of lists in cursors: a letter and, for a list of one integration, the id of the integration. A cursor also has
// the sort key of the page's last item.
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

// sortKeyCursor returns the sort key after which a page begins.
func (c *call) sortKeyCursor(list string) staff.SortKey {
	after := c.query.Cursor(list)
	if after == "" {
		return staff.SortKey{}
	}
	if len(after) != 8+len(uuid.UUID{}) {
		c.query.RefuseCursor()
		return staff.SortKey{}
	}
	at := time.UnixMicro(int64(binary.BigEndian.Uint64([]byte(after[:8])))) //nolint:gosec // reverses the conversion to uint64
	if at.Year() < 1 || at.Year() > 9999 {
		c.query.RefuseCursor() // outside the range of timestamps in the database
	}
	return staff.SortKey{At: at, ID: uuid.UUID([]byte(after[8:]))}
}

// encodeSortKey encodes the sort key of an item: microseconds since 1970, big-endian, and an id.
func encodeSortKey[T interface{ SortKey() staff.SortKey }](item T) string {
	key := item.SortKey()
	return string(append(binary.BigEndian.AppendUint64(nil, uint64(key.At.UnixMicro())), key.ID[:]...))
}

// limit returns the requested number of items of a page.
func (c *call) limit() int { return c.query.Limit(defaultPage, maxPage) }

// paginate reads a page of a list, unless the query is invalid. read returns up to limit+1 items. A page of large items
// is shorter.
func paginate[T any](
	c *call, list string, limit int, sortKey func(T) string, read func() ([]T, error),
) (*output, error) {
	if err := c.query.Err(); err != nil {
		return nil, err
	}
	items, err := read()
	if err != nil {
		return nil, err
	}
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
