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
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/database"
	"novelgate/internal/names"
	"novelgate/internal/title"
	"novelgate/internal/web"
	"novelgate/readapi/history"
)

type eventsCommand struct {
	List      eventsList      `cmd:"" help:"List events, oldest first unless --newest."`
	Show      eventsShow      `cmd:"" help:"Show one event as a CloudEvent."`
	Replay    eventsReplay    `cmd:"" help:"Show the past state of a novel, a thread or an integration."`
	Export    eventsExport    `cmd:"" help:"Write the history to a directory that can be verified anywhere."`
	Verify    eventsVerify    `cmd:"" help:"Verify the history of a bundle, a database or a running service."`
	AccessLog eventsAccessLog `cmd:"" help:"Show who read the history, newest first."`
}

// endTimeout is the time to complete an entry of the access log after an interrupt.
const endTimeout = 5 * time.Second

// withAccessLog runs do on the database, and records it in the access log. do returns the number of rows for the
// entry. A parameter without a value was not given.
func (e *environment) withAccessLog(
	ctx context.Context, parameters map[string]string, do func(pool *pgxpool.Pool) (int64, error),
) error {
	maps.DeleteFunc(parameters, func(_, value string) bool { return value == "" })
	url, err := e.database.url(ctx)
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
		Role: history.CLI, Name: cmp.Or(userName(), "unknown"),
		RequestID: uuid.Must(uuid.NewV7()).String(),
		Route:     "novelgate events " + e.verb, Parameters: parameters,
	})
	if err != nil {
		return err
	}
	rows, err := do(pool)
	if ctx.Err() != nil { // complete the entry even after an interrupt, which must not hang itself
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
	}
	if endErr := log.End(ctx, entry, rows); err == nil {
		err = endErr
	}
	return err
}

type eventsList struct {
	StaffFlags
	RowsFlag
	Newest      bool       `help:"Newest first."`
	After       *int64     `placeholder:"INDEX" help:"After the event with this log index."`
	Before      *int64     `placeholder:"INDEX" help:"Before the event with this log index."`
	Stream      *uuid.UUID `placeholder:"ID" help:"Of this aggregate."`
	StreamType  string     `placeholder:"TYPE" help:"Of this kind of aggregate: novel, thread, post, author, integration, person, projection."`
	Type        string     `placeholder:"TYPE" help:"Of this type, such as novel.created.v1."`
	Integration string     `placeholder:"ID|NAME" help:"Caused by this integration, in its stream, about its authors, or by staff about its novels and comments."`
	Actor       string     `placeholder:"ACTOR" help:"By staff or an integration with this name, or by this actor, such as staff:cli:root."`
	Novel       string     `placeholder:"ID|TITLE" help:"Of this novel, of its thread and of its comments."`
	Day         string     `placeholder:"DAY" help:"Recorded on this day (UTC): today, yesterday, or such as 2026-01-31."`
	From        *instant   `placeholder:"TIME" help:"Recorded at this time (RFC 3339) or later."`
	To          *instant   `placeholder:"TIME" help:"Recorded before this time."`
	Correlation string     `placeholder:"ID" help:"With this correlation or request id."`
}

// instant is a time in RFC 3339 form.
type instant time.Time

// UnmarshalText accepts the same forms as the routes for auditors.
func (i *instant) UnmarshalText(text []byte) error {
	parsed, err := web.ParseTime(string(text))
	*i = instant(parsed)
	return err
}

func (i instant) String() string { return time.Time(i).Format(time.RFC3339Nano) }

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
		From: (*time.Time)(c.From), To: (*time.Time)(c.To),
	}
	if c.Stream != nil {
		filter.Stream = uuid.NullUUID{UUID: *c.Stream, Valid: true}
	}
	named := history.Named{Integration: c.Integration, Novel: c.Novel, Actor: c.Actor, Day: c.Day}
	return filter, named.Resolve(ctx, pool, &filter)
}

// findID returns the id of an integration or a novel, given its id, or its name or title.
func findID(ctx context.Context, s staffService, kind, name string) (uuid.NullUUID, error) {
	id, err := uuid.Parse(name)
	if err != nil {
		if kind == "integration" {
			var found staff.Integration
			found, err = s.Integration(ctx, name)
			id = found.ID
		} else {
			var found staff.Novel
			found, err = s.Novel(ctx, name)
			id = found.NovelID
		}
	}
	return uuid.NullUUID{UUID: id, Valid: err == nil}, err
}

// resolveDay replaces today and yesterday, and refuses what is no day.
func (c *eventsList) resolveDay(now time.Time) error {
	switch c.Day {
	case "":
		return nil
	case "today":
		c.Day = now.UTC().Format(time.DateOnly)
	case "yesterday":
		c.Day = now.UTC().AddDate(0, 0, -1).Format(time.DateOnly)
	}
	if _, err := time.Parse(time.DateOnly, c.Day); err != nil || c.From != nil || c.To != nil {
		return errors.New("--day: must be a day such as 2026-01-31, today or yesterday, without --from and --to")
	}
	return nil
}

func (c *eventsList) run(ctx context.Context, env *environment) error {
	if err := c.resolveDay(env.now()); err != nil {
		return err
	}
	parameters := map[string]string{
		"after": textOf(c.After), "before": textOf(c.Before), "stream": textOf(c.Stream), "stream-type": c.StreamType,
		"type": c.Type, "integration": c.Integration, "novel": c.Novel, "from": textOf(c.From), "to": textOf(c.To),
		"actor": c.Actor, "day": c.Day, "correlation": c.Correlation, "limit": strconv.Itoa(int(c.Limit)),
	}
	list := eventPrinter{env: env, limit: int64(c.Limit), continues: "--after"}
	if env.service.URL != "" {
		err := c.readService(ctx, env, parameters, list.print)
		return list.end(err)
	}
	read := readHistory
	if c.Newest {
		parameters["newest"] = "true"
		read, list.continues = readNewest, "--before"
	}
	return env.withAccessLog(ctx, parameters, func(pool *pgxpool.Pool) (int64, error) {
		filter, err := c.filter(ctx, pool)
		if err != nil {
			return 0, err
		}
		err = read(ctx, pool, filter, c.Limit.readLimit(), func(e *history.Event, names staff.Names) error {
			return list.print(e, names, nil)
		})
		return list.rows, list.end(err)
	})
}

// eventPrinter prints events up to a limit, and what follows the last one.
type eventPrinter struct {
	env         *environment
	limit, rows int64
	continues   string // flag
	last        int64  // log index
	more        bool   // than the limit
}

func (p *eventPrinter) print(e *history.Event, names staff.Names, text []byte) error {
	if p.more = p.limit > 0 && p.rows == p.limit; p.more {
		return nil
	}
	p.last = e.LogIndex
	p.rows++
	return printEvent(p.env, e, names, text, p.rows == 1)
}

// end ends the list. err is the error of reading it.
func (p *eventPrinter) end(err error) error {
	switch {
	case errors.Is(err, history.ErrBeyond):
		err = fmt.Errorf("--after: %w", err)
	case err == nil && p.env.json && p.rows == 0:
		fmt.Fprintln(p.env.stdout, "[]")
	case err == nil && p.env.json:
		fmt.Fprintln(p.env.stdout, "]")
	case err == nil && p.rows == 0:
		p.env.tellNone()
	}
	if err == nil && p.more {
		fmt.Fprintf(p.env.stderr, "Only the first %d; --limit shows more, and %s %d continues.\n", p.limit, p.continues,
			p.last)
	}
	return err
}

// readHistory calls do for each event of the filter, oldest first.
func readHistory(
	ctx context.Context, pool *pgxpool.Pool, filter history.Filter, limit int, do doEvent,
) error {
	reader, err := history.NewReader(ctx, pool, filter)
	if err != nil {
		return err
	}
	err = (&history.Stream{Reader: reader, Limit: limit}).Run(ctx, history.Cursor{}, func(list []history.Event) error {
		return doEach(ctx, pool, list, do)
	}, func() error { return nil }) // nothing to do between pages
	if errors.Is(err, history.ErrCursorMismatch) {
		err = fmt.Errorf("the last event that was read %w", err)
	}
	return err
}

// readNewest calls do for up to limit events of the filter, newest first.
func readNewest(
	ctx context.Context, pool *pgxpool.Pool, filter history.Filter, limit int, do doEvent,
) error {
	reader, err := history.NewReader(ctx, pool, filter)
	if err != nil {
		return err
	}
	return reader.Newest(ctx, limit, func(list []history.Event) error { return doEach(ctx, pool, list, do) })
}

// doEvent does something with an event; names are those of its page.
type doEvent func(e *history.Event, names staff.Names) error

func doEach(ctx context.Context, pool *pgxpool.Pool, list []history.Event, do doEvent) error {
	names, err := history.Names(ctx, pool, list)
	if err != nil {
		return err
	}
	for i := range list {
		if err := do(&list[i], names); err != nil {
			return err
		}
	}
	return nil
}

// printEvent prints an event as a line of text, or as an item of a JSON list without its end. text is its CloudEvent,
// or nil.
func printEvent(env *environment, e *history.Event, called staff.Names, text []byte, first bool) error {
	if !env.json {
		return printEventText(env, e, called)
	}
	before := ",\n "
	if first {
		before = "["
	}
	var err error
	if text == nil {
		text, err = history.AppendCloudEvent(nil, e)
	}
	if err == nil {
		_, err = fmt.Fprintf(env.stdout, "%s%s", before, text)
	}
	return err
}

// printEventText prints an event as a line of text, on a terminal that is too narrow as several. It shows names in
// place of ids where they identify as well; --json has all ids.
func printEventText(env *environment, e *history.Event, called staff.Names) error {
	head := fmt.Sprintf("%8d  %s  %-33s", e.LogIndex, formatTime(&e.RecordedAt), printable(e.Type))
	tail := subjectOf(e, called) + ", by " + cmp.Or(called[names.Integration(e.Metadata.Actor)], e.Metadata.Actor)
	if names.Integration(e.Metadata.Actor) != uuid.Nil {
		tail += " (key " + e.ID + ")"
	}
	if summary := events.Summary(e.Type, e.Data); summary != "" {
		tail += ": " + title.Clip(summary, 200)
	}
	tail = printable(tail)
	if whole := head + "  " + tail; env.width == 0 || utf8.RuneCountInString(whole) <= env.width {
		_, err := fmt.Fprintln(env.stdout, whole)
		return err
	}
	const indent = "\n          "
	_, err := fmt.Fprintln(env.stdout,
		strings.TrimRight(head, " ")+indent+strings.Join(wrap(tail, env.width-len(indent)+1), indent))
	return err
}

// subjectOf returns what an event is about, as the commands of staff name it.
func subjectOf(e *history.Event, called staff.Names) string {
	about := cmp.Or(called[e.StreamID], called[history.AuthorsIntegration(e.Data)])
	id := e.StreamType + "/" + e.StreamID.String()
	var author struct {
		ExternalUUID string `json:"uuid"`
	}
	switch {
	case e.StreamType == events.PostStream || about == "":
		return named(about, id)
	case e.StreamType != events.AuthorStream:
		return about
	case json.Unmarshal(e.Personal, &author) != nil || author.ExternalUUID == "": // erased
		return named(about, id)
	}
	return "author " + author.ExternalUUID + " of " + about
}

type eventsShow struct {
	StaffFlags
	Event int64 `arg:"" name:"log-index" help:"Log index."`
}

func (c *eventsShow) run(ctx context.Context, env *environment) error {
	if env.service.URL != "" {
		s, err := env.service.open(env.tellWaiting())
		if err != nil {
			return err
		}
		text, err := s.Event(ctx, c.Event, history.ErrNotFound)
		return c.print(env, text, err)
	}
	return env.withAccessLog(ctx, map[string]string{"event": textOf(&c.Event)}, func(pool *pgxpool.Pool) (int64, error) {
		found, err := history.At(ctx, pool, c.Event)
		if err != nil {
			return 0, c.print(env, nil, err)
		}
		text, err := history.AppendCloudEvent(nil, &found)
		return 1, c.print(env, text, err)
	})
}

// print prints the CloudEvent, or returns the error of reading it.
func (c *eventsShow) print(env *environment, text jsontext.Value, err error) error {
	if err != nil {
		return fmt.Errorf("event %d: %w", c.Event, err)
	}
	if !env.json {
		if err := text.Indent(jsontext.WithIndent("  ")); err != nil {
			return fmt.Errorf("print event: %w", err)
		}
	}
	fmt.Fprintf(env.stdout, "%s\n", text)
	return nil
}

type eventsAccessLog struct {
	StaffFlags
	RowsFlag
}

var accessColumns = columns[history.AccessEntry]{
	[]any{"BEGAN", "ROLE", "NAME", "ROWS", "READ", "PARAMETERS"},
	func(e history.AccessEntry) []any {
		return []any{
			formatTime(&e.BeganAt), e.Role, e.Name, orDash(e.RowsReturned), e.Route, string(e.Parameters),
		}
	},
}

func (c *eventsAccessLog) run(ctx context.Context, env *environment) error {
	if env.service.URL != "" {
		list, err := c.readService(ctx, env)
		return env.show(accessColumns.list(within(env, c.Limit, list), err))
	}
	parameters := map[string]string{"limit": strconv.Itoa(int(c.Limit))}
	return env.withAccessLog(ctx, parameters, func(pool *pgxpool.Pool) (int64, error) {
		list, err := (&history.AccessLog{DB: pool}).List(ctx, math.MaxInt64, c.Limit.readLimit())
		list = within(env, c.Limit, list)
		return int64(len(list)), env.show(accessColumns.list(list, err))
	})
}
