package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/staff"
	"novelgate/internal/database"
	"novelgate/internal/web"
	"novelgate/readapi/history"
)

type eventsCommand struct {
	List      eventsList      `cmd:"" help:"List events, oldest first."`
	Show      eventsShow      `cmd:"" help:"Show one event as a CloudEvent."`
	Replay    eventsReplay    `cmd:"" help:"Show the past state of a novel, a thread or an integration."`
	Export    eventsExport    `cmd:"" help:"Write the history to a directory that can be verified anywhere."`
	Verify    eventsVerify    `cmd:"" help:"Verify the history of a bundle, a database or a running service."`
	AccessLog eventsAccessLog `cmd:"" help:"Show who read the history, newest first."`
}

// withAccessLog runs do on the database, and records it in the access log. do returns the number of rows for the
// entry. A parameter without a value was not given.
func (f DatabaseFlags) withAccessLog(
	ctx context.Context, command string, parameters map[string]string, do func(pool *pgxpool.Pool) (int64, error),
) error {
	maps.DeleteFunc(parameters, func(_, value string) bool { return value == "" })
	url, err := f.url(ctx)
	if err != nil {
		return err
	}
	pool, err := database.OpenHistory(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	log := &history.AccessLog{DB: pool}
	entry, err := log.Begin(ctx, &history.Access{
		Person:    history.Person{Role: history.CLI, Name: cmp.Or(userName(), "unknown")},
		RequestID: uuid.Must(uuid.NewV7()).String(),
		Route:     "novelgate events " + command, Parameters: parameters,
	})
	if err != nil {
		return err
	}
	rows, err := do(pool)
	// Complete the entry even after an interrupt.
	if endErr := log.End(context.WithoutCancel(ctx), entry, rows); err == nil {
		err = endErr
	}
	return err
}

type eventsList struct {
	CommonFlags
	RowsFlag
	After       *int64     `placeholder:"INDEX" help:"After the event with this log index."`
	Before      *int64     `placeholder:"INDEX" help:"Before the event with this log index."`
	Stream      *uuid.UUID `placeholder:"ID" help:"Of this aggregate."`
	StreamType  string     `placeholder:"TYPE" help:"Of this kind of aggregate: novel, thread, post, author, integration, person, projection."`
	Type        string     `placeholder:"TYPE" help:"Of this type, such as novel.created.v1."`
	Integration string     `placeholder:"ID|NAME" help:"Caused by this integration, in its stream, or about its authors."`
	Novel       string     `placeholder:"ID|TITLE" help:"Of this novel, of its thread and of its comments."`
	From        *instant   `placeholder:"TIME" help:"Recorded at this time (RFC 3339) or later."`
	To          *instant   `placeholder:"TIME" help:"Recorded before this time."`
	Correlation string     `placeholder:"ID" help:"With this correlation or request id."`
	Cursor      string     `placeholder:"CURSOR" help:"After this cursor, which every event carries in its JSON."`
}

// instant is a time in RFC 3339 form.
type instant struct{ time.Time }

// UnmarshalText accepts the same forms as the routes for auditors.
func (i *instant) UnmarshalText(text []byte) (err error) {
	i.Time, err = web.ParseTime(string(text))
	return err
}

func (i instant) String() string { return i.Format(time.RFC3339Nano) }

// pointer returns the time; nil for none.
func (i *instant) pointer() *time.Time {
	if i == nil {
		return nil
	}
	return &i.Time
}

func textOf[T any](value *T) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(*value)
}

// filter resolves names and titles.
func (c *eventsList) filter(ctx context.Context, pool *pgxpool.Pool) (filter history.Filter, err error) {
	filter = history.Filter{
		After: c.After, Before: c.Before, StreamType: c.StreamType, Type: c.Type, Correlation: c.Correlation,
		From: c.From.pointer(), To: c.To.pointer(),
	}
	if c.Stream != nil {
		filter.Stream = uuid.NullUUID{UUID: *c.Stream, Valid: true}
	}
	if c.Integration != "" {
		if filter.Integration, err = integrationID(ctx, pool, c.Integration); err != nil {
			return filter, err
		}
	}
	if c.Novel != "" {
		filter.Novel, err = novelID(ctx, pool, c.Novel)
	}
	return filter, err
}

// integrationID returns the id of an integration, given its id or its name.
func integrationID(ctx context.Context, pool *pgxpool.Pool, idOrName string) (uuid.NullUUID, error) {
	return idOr(idOrName, func() (uuid.UUID, error) {
		found, err := (&staff.Staff{Pool: pool}).Integration(ctx, idOrName)
		return found.ID, err
	})
}

// novelID returns the id of a novel, given its id or its title.
func novelID(ctx context.Context, pool *pgxpool.Pool, idOrTitle string) (uuid.NullUUID, error) {
	return idOr(idOrTitle, func() (uuid.UUID, error) {
		found, err := (&staff.Staff{Pool: pool}).Novel(ctx, idOrTitle)
		return found.NovelID, err
	})
}

// idOr returns the id in text. If text is no id, it returns the one that find returns.
func idOr(text string, find func() (uuid.UUID, error)) (uuid.NullUUID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		id, err = find()
	}
	return uuid.NullUUID{UUID: id, Valid: err == nil}, err
}

func (c *eventsList) Run(ctx context.Context, env *env) error {
	out := c.output(env)
	parameters := map[string]string{
		"after": textOf(c.After), "before": textOf(c.Before), "stream": textOf(c.Stream), "stream-type": c.StreamType,
		"type": c.Type, "integration": c.Integration, "novel": c.Novel, "from": textOf(c.From), "to": textOf(c.To),
		"correlation": c.Correlation, "cursor": c.Cursor, "limit": strconv.Itoa(int(c.Limit)),
	}
	return c.withAccessLog(ctx, "list", parameters, func(pool *pgxpool.Pool) (rows int64, err error) {
		filter, err := c.filter(ctx, pool)
		if err != nil {
			return 0, err
		}
		cursor, err := history.ParseCursor(c.Cursor)
		if err != nil {
			return 0, fmt.Errorf("--cursor: %w", err)
		}
		reader, err := history.NewReader(ctx, pool, filter)
		if errors.Is(err, history.ErrBeyond) {
			err = fmt.Errorf("--after: %w", err)
		}
		if err != nil {
			return 0, err
		}
		stream := &history.Stream{Reader: reader, Limit: c.Limit.readLimit()}
		more, last := false, cursor
		err = stream.Run(ctx, cursor, func(list []history.Event) error {
			for i := range list {
				if more = c.Limit > 0 && rows == int64(c.Limit); more {
					break
				}
				if err := printEvent(out, &list[i], rows == 0); err != nil {
					return err
				}
				last = list[i].Cursor()
				rows++
			}
			return nil
		}, func() error { return nil }) // nothing to do between pages
		switch {
		case errors.Is(err, history.ErrCursorMismatch) && rows == 0 && c.Cursor != "":
			err = fmt.Errorf("--cursor %s %w", c.Cursor, err) // … does not match the log
		case errors.Is(err, history.ErrCursorMismatch):
			err = fmt.Errorf("the last event that was read %w", err)
		case err == nil && out.json && rows == 0:
			fmt.Fprintln(out.stdout, "[]")
		case err == nil && out.json:
			fmt.Fprintln(out.stdout, "]")
		}
		if err == nil && more {
			fmt.Fprintf(out.stderr, "Only the first %d; --limit shows more, and --cursor %s continues.\n", c.Limit, last)
		}
		return rows, err
	})
}

// printEvent prints an event as a line of text, or as an item of a JSON list without its end.
func printEvent(out *output, e *history.Event, first bool) error {
	if !out.json {
		_, err := fmt.Fprintln(out.stdout, lineOf(e))
		return err
	}
	before := ",\n "
	if first {
		before = "["
	}
	text, err := history.AppendCloudEvent([]byte(before), e)
	if err == nil {
		_, err = out.stdout.Write(text)
	}
	return err
}

// lineOf returns an event as a line of text.
func lineOf(e *history.Event) string {
	return strings.Join([]string{
		fmt.Sprintf("%8d", e.LogIndex), e.RecordedAt.UTC().Format("2006-01-02 15:04:05.000000Z"),
		fmt.Sprintf("%-34s", printable(e.Type)),
		e.StreamType + "/" + e.StreamID.String() + "/" + strconv.Itoa(e.StreamVersion), printable(e.Metadata.Actor),
		printable(e.ID),
	}, "  ")
}

type eventsShow struct {
	CommonFlags
	Event string `arg:"" help:"Log index, or STREAM-ID/VERSION."`
}

func (c *eventsShow) Run(ctx context.Context, env *env) error {
	out := c.output(env)
	return c.withAccessLog(ctx, "show", map[string]string{"event": c.Event}, func(pool *pgxpool.Pool) (int64, error) {
		found, err := c.find(ctx, pool)
		if err != nil {
			return 0, fmt.Errorf("event %s: %w", c.Event, err)
		}
		text, err := history.AppendCloudEvent(nil, &found)
		if err != nil {
			return 0, err
		}
		if !out.json {
			if err := (*jsontext.Value)(&text).Indent(jsontext.WithIndent("  ")); err != nil {
				return 0, fmt.Errorf("print event: %w", err)
			}
		}
		fmt.Fprintf(out.stdout, "%s\n", text)
		return 1, nil
	})
}

func (c *eventsShow) find(ctx context.Context, pool *pgxpool.Pool) (history.Event, error) {
	stream, version, isVersion := strings.Cut(c.Event, "/")
	if !isVersion {
		index, err := strconv.ParseInt(c.Event, 10, 64)
		if err != nil {
			return history.Event{}, errors.New("must be a log index or STREAM-ID/VERSION")
		}
		return history.At(ctx, pool, index)
	}
	id, err := uuid.Parse(stream)
	if err != nil {
		return history.Event{}, fmt.Errorf("stream: %w", err)
	}
	n, err := strconv.ParseInt(version, 10, 32)
	if err != nil {
		return history.Event{}, fmt.Errorf("version: %w", err)
	}
	return history.Version(ctx, pool, id, int(n))
}

type eventsAccessLog struct {
	CommonFlags
	RowsFlag
}

var accessColumns = columns[history.AccessEntry]{
	[]any{"BEGAN", "ROLE", "NAME", "READ", "PARAMETERS", "ROWS", "REQUEST"},
	func(e history.AccessEntry) []any {
		return []any{
			formatTime(&e.BeganAt), e.Role, e.Name, e.Route, string(e.Parameters), orDash(e.RowsReturned), e.RequestID,
		}
	},
}

func (c *eventsAccessLog) Run(ctx context.Context, env *env) error {
	out := c.output(env)
	parameters := map[string]string{"limit": strconv.Itoa(int(c.Limit))}
	return c.withAccessLog(ctx, "access-log", parameters, func(pool *pgxpool.Pool) (int64, error) {
		list, err := (&history.AccessLog{DB: pool}).List(ctx, math.MaxInt64, c.Limit.readLimit())
		list = shown(out.streams, list, c.Limit)
		return int64(len(list)), accessColumns.printList(out, list, err)
	})
}
