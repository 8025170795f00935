package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/eventlog"
	"novelgate/readapi/history"
)

// EventsList is `novelgate events list`.
type EventsList struct {
	DatabaseFlags
	OutputFlags
	EventFilterFlags
	RowsFlag
}

// Run prints events.
func (c *EventsList) Run(in *invocation) error {
	parameters := c.parameters()
	parameters["limit"] = strconv.Itoa(int(c.Limit))
	return c.withHistory(in, "list", parameters, func(pool *pgxpool.Pool) (int64, error) {
		p := &eventPrinter{in: in, json: c.JSON, list: true}
		more, err := c.stream(in, pool, &history.Stream{Limit: int(c.Limit)}, p)
		if err == nil {
			err = p.end()
		}
		if err == nil && more {
			fmt.Fprintf(in.stderr, "Only the first %d; --limit shows more, and --cursor %s goes on.\n", c.Limit, p.last)
		}
		return p.rows, err
	})
}

// stream runs a stream of what the flags say and reports whether its limit has ended it.
func (f *EventFilterFlags) stream(
	in *invocation, pool *pgxpool.Pool, s *history.Stream, p *eventPrinter,
) (limited bool, err error) {
	filter, err := f.filter(in, pool)
	if err != nil {
		return false, err
	}
	cursor, err := history.ParseCursor(f.Cursor)
	if err != nil {
		return false, fmt.Errorf("--cursor: %w", err)
	}
	if s.Reader, err = history.NewReader(in.ctx, pool, filter); err != nil {
		return false, fmt.Errorf("--after: %w", err)
	}
	if s.Follow && f.Cursor == "" && f.After == nil && f.From == nil {
		horizon, err := s.Reader.Horizon(in.ctx)
		if err != nil {
			return false, err
		}
		cursor = horizon.Cursor()
	}
	err = s.Run(in.ctx, cursor, p.events, func() error { return nil })
	if errors.Is(err, history.ErrElsewhere) {
		place := "--cursor " + f.Cursor
		if f.Cursor == "" || p.rows > 0 {
			place = "the end of what was read"
		}
		err = fmt.Errorf("%s %w", place, err)
	}
	return s.Limit > 0 && p.rows == int64(s.Limit), err
}

// EventsTail is `novelgate events tail`.
type EventsTail struct {
	DatabaseFlags
	OutputFlags
	EventFilterFlags
}

// Run prints events as they settle, from now on unless --after, --from or --cursor say otherwise. With --json every
// line is a CloudEvent.
func (c *EventsTail) Run(in *invocation) error {
	if c.Before != nil || c.To != nil {
		return errors.New("tail has no end: it goes with neither --before nor --to")
	}
	return c.withHistory(in, "tail", c.parameters(), func(pool *pgxpool.Pool) (int64, error) {
		wake := eventlog.NewWake()
		signals, stop := wake.Signals()
		defer stop()
		logger := slog.New(slog.NewTextHandler(in.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		go eventlog.Listen(in.ctx, pool.Config().ConnConfig, wake, logger)
		p := &eventPrinter{in: in, json: c.JSON}
		_, err := c.stream(in, pool, &history.Stream{Follow: true, Signal: signals}, p)
		if in.ctx.Err() != nil {
			err = nil // interrupted, as it is meant to end
		}
		return p.rows, err
	})
}

// eventPrinter prints events: lines for people, or JSON, as one list or one event on each line.
type eventPrinter struct {
	in     *invocation
	json   bool
	list   bool
	rows   int64
	last   history.Cursor
	buffer []byte
}

func (p *eventPrinter) events(list []history.Event) error {
	for i := range list {
		p.buffer = p.buffer[:0]
		switch {
		case !p.json:
			p.buffer = append(p.buffer, lineOf(&list[i])...)
		case p.list && p.rows == 0:
			p.buffer = append(p.buffer, '[')
		case p.list:
			p.buffer = append(p.buffer, ",\n "...)
		}
		if p.json {
			var err error
			if p.buffer, err = history.AppendCloudEvent(p.buffer, &list[i]); err != nil {
				return err
			}
		}
		if !p.list || !p.json {
			p.buffer = append(p.buffer, '\n')
		}
		if _, err := p.in.stdout.Write(p.buffer); err != nil {
			return fmt.Errorf("print event: %w", err)
		}
		p.rows++
		p.last = list[i].Cursor()
	}
	return nil
}

// end closes a list.
func (p *eventPrinter) end() error {
	if !p.json {
		return nil
	}
	end := "]\n"
	if p.rows == 0 {
		end = "[]\n"
	}
	if _, err := fmt.Fprint(p.in.stdout, end); err != nil {
		return fmt.Errorf("print events: %w", err)
	}
	return nil
}

// EventsShow is `novelgate events show`.
type EventsShow struct {
	DatabaseFlags
	OutputFlags
	Event string `arg:"" name:"event" help:"Log index, or STREAM-ID/VERSION."`
}

// Run prints the event.
func (c *EventsShow) Run(in *invocation) error {
	return c.withHistory(in, "show", map[string]string{"event": c.Event}, func(pool *pgxpool.Pool) (int64, error) {
		found, err := c.find(in, pool)
		if err != nil {
			return 0, fmt.Errorf("event %s: %w", c.Event, err)
		}
		text, err := history.AppendCloudEvent(nil, &found)
		if err != nil {
			return 0, err
		}
		if !c.JSON {
			if err := (*jsontext.Value)(&text).Indent(jsontext.WithIndent("  ")); err != nil {
				return 0, fmt.Errorf("print event: %w", err)
			}
		}
		fmt.Fprintf(in.stdout, "%s\n", text)
		return 1, nil
	})
}

func (c *EventsShow) find(in *invocation, pool *pgxpool.Pool) (history.Event, error) {
	stream, version, isVersion := strings.Cut(c.Event, "/")
	if !isVersion {
		index, err := strconv.ParseInt(c.Event, 10, 64)
		if err != nil {
			return history.Event{}, errors.New("must be a log index or STREAM-ID/VERSION")
		}
		return history.At(in.ctx, pool, index)
	}
	id, err := uuid.Parse(stream)
	if err != nil {
		return history.Event{}, fmt.Errorf("stream: %w", err)
	}
	n, err := strconv.ParseInt(version, 10, 32)
	if err != nil {
		return history.Event{}, fmt.Errorf("version: %w", err)
	}
	return history.Version(in.ctx, pool, id, int(n))
}
