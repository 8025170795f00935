package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/staff"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/httpkit"
	"novelgate/readapi/history"
)

type eventsCommand struct {
	List      eventsList      `cmd:"" help:"List events, oldest first."`
	Tail      eventsTail      `cmd:"" help:"Show new events until interrupted; --after, --from or --cursor set the start."`
	Show      eventsShow      `cmd:"" help:"Show one event as a CloudEvent."`
	Replay    eventsReplay    `cmd:"" help:"Show the past state of a novel, a thread or an integration."`
	Diff      eventsDiff      `cmd:"" help:"Show the changes of a novel, a thread or an integration between two points."`
	Export    eventsExport    `cmd:"" help:"Write the history to a directory that can be verified anywhere."`
	Verify    eventsVerify    `cmd:"" help:"Verify the history of a bundle, a database or a running service."`
	AccessLog eventsAccessLog `cmd:"" help:"Show who read the history, newest first."`
}

// withAccessLog runs do on the database, and records it in the access log. do returns the number of rows for the
// entry.
func (f DatabaseFlags) withAccessLog(
	ctx context.Context, command string, parameters map[string]string, do func(pool *pgxpool.Pool) (int64, error),
) error {
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

// nonEmpty returns the parameters that have a value.
func nonEmpty(parameters map[string]string) map[string]string {
	maps.DeleteFunc(parameters, func(_, value string) bool { return value == "" })
	return parameters
}

// EventFilterFlags select events.
type EventFilterFlags struct {
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
	i.Time, err = httpkit.ParseTime(string(text))
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

// parameters returns the flags as the access log stores them.
func (f *EventFilterFlags) parameters() map[string]string {
	return nonEmpty(map[string]string{
		"after": textOf(f.After), "before": textOf(f.Before), "stream": textOf(f.Stream), "stream-type": f.StreamType,
		"type": f.Type, "integration": f.Integration, "novel": f.Novel, "from": textOf(f.From), "to": textOf(f.To),
		"correlation": f.Correlation, "cursor": f.Cursor,
	})
}

func textOf[T any](value *T) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(*value)
}

// filter resolves names and titles.
func (f *EventFilterFlags) filter(ctx context.Context, pool *pgxpool.Pool) (filter history.Filter, err error) {
	filter = history.Filter{
		After: f.After, Before: f.Before, StreamType: f.StreamType, Type: f.Type, Correlation: f.Correlation,
		From: f.From.pointer(), To: f.To.pointer(),
	}
	if f.Stream != nil {
		filter.Stream = uuid.NullUUID{UUID: *f.Stream, Valid: true}
	}
	if f.Integration != "" {
		if filter.Integration, err = integrationID(ctx, pool, f.Integration); err != nil {
			return filter, err
		}
	}
	if f.Novel != "" {
		filter.Novel, err = novelID(ctx, pool, f.Novel)
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

// print prints the events that the flags select. It sets the Reader of s; the other fields of s say how to read.
func (f *EventFilterFlags) print(ctx context.Context, pool *pgxpool.Pool, s *history.Stream, p *eventPrinter) error {
	filter, err := f.filter(ctx, pool)
	if err != nil {
		return err
	}
	cursor, err := history.ParseCursor(f.Cursor)
	if err != nil {
		return fmt.Errorf("--cursor: %w", err)
	}
	s.Reader, err = history.NewReader(ctx, pool, filter)
	if errors.Is(err, history.ErrBeyond) {
		err = fmt.Errorf("--after: %w", err)
	}
	if err != nil {
		return err
	}
	if s.Follow && f.Cursor == "" && f.After == nil && f.From == nil {
		if cursor, err = s.Reader.End(ctx); err != nil {
			return err
		}
	}
	err = s.Run(ctx, cursor, p.page, func() error { return nil }) // nothing to do between pages
	if errors.Is(err, history.ErrCursorMismatch) {
		given := "--cursor " + f.Cursor
		if f.Cursor == "" || p.rows > 0 {
			given = "the last event that was read"
		}
		err = fmt.Errorf("%s %w", given, err) // … does not match the log
	}
	return err
}

type eventsList struct {
	CommonFlags
	EventFilterFlags
	RowsFlag
}

func (c *eventsList) Run(ctx context.Context, env *env) error {
	out := c.output(env)
	parameters := c.parameters()
	parameters["limit"] = strconv.Itoa(int(c.Limit))
	return c.withAccessLog(ctx, "list", parameters, func(pool *pgxpool.Pool) (int64, error) {
		p := &eventPrinter{out: out, list: true, limit: int64(c.Limit)}
		err := c.print(ctx, pool, &history.Stream{Limit: c.Limit.readLimit()}, p)
		if err == nil {
			err = p.end()
		}
		if err == nil && p.more {
			fmt.Fprintf(out.stderr, "Only the first %d; --limit shows more, and --cursor %s continues.\n", c.Limit, p.last)
		}
		return p.rows, err
	})
}

type eventsTail struct {
	CommonFlags
	EventFilterFlags
}

// Run prints new events; --after, --from and --cursor set another start. With --json every line is a
// CloudEvent.
func (c *eventsTail) Run(ctx context.Context, env *env) error {
	out := c.output(env)
	if c.Before != nil || c.To != nil {
		return errors.New("tail does not end: it cannot be combined with --before or --to")
	}
	return c.withAccessLog(ctx, "tail", c.parameters(), func(pool *pgxpool.Pool) (int64, error) {
		wake := eventlog.NewWake()
		go wake.Listen(ctx, pool.Config().ConnConfig, out.logger(slog.LevelWarn))
		p := &eventPrinter{out: out}
		err := c.print(ctx, pool, &history.Stream{Follow: true, Wake: wake}, p)
		if ctx.Err() != nil {
			err = nil // an interrupt is the normal end
		}
		return p.rows, err
	})
}

// eventPrinter prints events as lines of text, as one JSON list, or as lines of JSON.
type eventPrinter struct {
	out    *output
	list   bool  // with --json: one list instead of lines
	limit  int64 // maximum number of rows; 0: no limit
	rows   int64
	more   bool           // there are events beyond the limit
	last   history.Cursor // of the latest printed event
	buffer []byte
}

// page prints a page of events, up to the limit.
func (p *eventPrinter) page(list []history.Event) error {
	if p.limit > 0 && p.rows+int64(len(list)) > p.limit {
		list, p.more = list[:p.limit-p.rows], true
	}
	for i := range list {
		before, after := "", "\n"
		switch {
		case p.out.json && p.list && p.rows == 0:
			before, after = "[", ""
		case p.out.json && p.list:
			before, after = ",\n ", ""
		}
		p.buffer = append(p.buffer[:0], before...)
		if p.out.json {
			var err error
			if p.buffer, err = history.AppendCloudEvent(p.buffer, &list[i]); err != nil {
				return err
			}
		} else {
			p.buffer = append(p.buffer, lineOf(&list[i])...)
		}
		p.buffer = append(p.buffer, after...)
		if _, err := p.out.stdout.Write(p.buffer); err != nil {
			return fmt.Errorf("print event: %w", err)
		}
		p.rows++
		p.last = list[i].Cursor()
	}
	return nil
}

// end closes a JSON list.
func (p *eventPrinter) end() error {
	if !p.out.json {
		return nil
	}
	end := "]\n"
	if p.rows == 0 {
		end = "[]\n"
	}
	if _, err := fmt.Fprint(p.out.stdout, end); err != nil {
		return fmt.Errorf("print events: %w", err)
	}
	return nil
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
