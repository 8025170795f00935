package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/replay"
	"novelgate/events"
	"novelgate/readapi/history"
)

// AggregateArgs name an aggregate.
type AggregateArgs struct {
	CommonFlags
	Kind string `arg:"" enum:"novel,thread,integration" help:"novel, thread or integration."`
	Name string `arg:"" help:"Title or id of the novel (for a thread too), name or id of the integration."`
}

type eventsReplay struct {
	AggregateArgs
	At string `required:"" placeholder:"TIME|INDEX" help:"Time (RFC 3339), or log index of the last event to include."`
}

// Run prints the state of the aggregate at a point.
func (c *eventsReplay) Run(ctx context.Context, env *env) error {
	out := c.output(env)
	parameters := map[string]string{"at": c.At, "kind": c.Kind, "name": c.Name}
	return c.withAccessLog(ctx, "replay", parameters, func(pool *pgxpool.Pool) (int64, error) {
		at, err := history.ParsePoint(ctx, pool, c.At)
		if err != nil {
			return 0, fmt.Errorf("--at: %w", err)
		}
		a, err := c.read(ctx, pool)
		if err != nil {
			return 0, err
		}
		rows := int64(len(a.history))
		state, exists := a.at(at)
		if !exists {
			return rows, fmt.Errorf("%s %q did not exist then", c.Kind, c.Name)
		}
		if thread, ok := state.(replay.Thread); ok {
			return rows, out.print(thread, func() { printThread(out, thread) })
		}
		fields, err := replay.Diff(struct{}{}, state) // from nothing: all fields
		if err != nil {
			return rows, err
		}
		return rows, out.print(state, func() {
			values := [][]any{{"FIELD", "VALUE"}}
			for _, field := range fields {
				values = append(values, []any{field.Field, plain(field.After)})
			}
			out.table(values)
		})
	})
}

func printThread(out *output, t replay.Thread) {
	fmt.Fprintf(out.stdout, "thread %s of novel %s: %d comments\n", t.ThreadID, t.NovelID, len(t.Posts))
	rows := [][]any{{"POST", "REPLY TO", "WRITTEN", "LAST EVENT", "BY", "CONTENT"}}
	for _, p := range t.Posts {
		rows = append(rows, []any{
			p.PostID, orDash(p.ParentPostID), formatTime(&p.WrittenAt), p.LastEvent, p.Username, fmt.Sprintf("%.60s", p.Content),
		})
	}
	out.table(rows)
}

type eventsDiff struct {
	AggregateArgs
	From string `required:"" placeholder:"TIME|INDEX" help:"First point: time (RFC 3339), or log index of its last event."`
	To   string `required:"" placeholder:"TIME|INDEX" help:"Second point: time, or log index of its last event."`
}

// Run prints the fields that changed.
func (c *eventsDiff) Run(ctx context.Context, env *env) error {
	out := c.output(env)
	parameters := map[string]string{"from": c.From, "to": c.To, "kind": c.Kind, "name": c.Name}
	return c.withAccessLog(ctx, "diff", parameters, func(pool *pgxpool.Pool) (int64, error) {
		from, err := history.ParsePoint(ctx, pool, c.From)
		if err != nil {
			return 0, fmt.Errorf("--from: %w", err)
		}
		to, err := history.ParsePoint(ctx, pool, c.To)
		if err != nil {
			return 0, fmt.Errorf("--to: %w", err)
		}
		a, err := c.read(ctx, pool)
		if err != nil {
			return 0, err
		}
		rows := int64(len(a.history))
		// After compares two times or two log indexes. For one of each, compare the numbers of events up to them.
		if from.After(to) || len(from.Until(a.history)) > len(to.Until(a.history)) {
			return rows, errors.New("--from is later than --to")
		}
		before, existedBefore := a.at(from)
		after, existsAfter := a.at(to)
		if !existedBefore && !existsAfter {
			return rows, fmt.Errorf("%s %q existed at neither point", c.Kind, c.Name)
		}
		if !existedBefore {
			before = struct{}{}
		}
		if !existsAfter {
			after = struct{}{}
		}
		changes, err := replay.Diff(before, after)
		return rows, changeColumns.printList(out, changes, err)
	})
}

var changeColumns = columns[replay.Change]{
	[]any{"FIELD", "BEFORE", "AFTER"},
	func(c replay.Change) []any { return []any{c.Field, plain(c.Before), plain(c.After)} },
}

// aggregate is the history of a novel, a thread or an integration.
type aggregate struct {
	kind    string
	id      uuid.UUID // of the novel, for a thread
	history []events.Recorded
}

// at returns the state at a point, and whether the aggregate existed.
func (a *aggregate) at(point history.Point) (state any, exists bool) {
	until := point.Until(a.history)
	switch a.kind {
	case "novel":
		state = replay.NovelOf(a.id, until)
	case "thread":
		state = replay.ThreadOf(a.id, until)
	default:
		state = replay.IntegrationOf(a.id, until)
	}
	return state, len(until) > 0
}

// read reads the history of the aggregate. For a thread these are the events of the thread and of its comments.
func (a *AggregateArgs) read(ctx context.Context, pool *pgxpool.Pool) (*aggregate, error) {
	find := novelID
	if a.Kind == "integration" {
		find = integrationID
	}
	id, err := find(ctx, pool, a.Name)
	if err != nil {
		return nil, err
	}
	filter := history.Filter{Stream: id}
	if a.Kind == "thread" {
		filter = history.Filter{Novel: id}
	}
	reader, err := history.NewReader(ctx, pool, filter)
	if err != nil {
		return nil, err
	}
	found := &aggregate{kind: a.Kind, id: id.UUID}
	err = (&history.Stream{Reader: reader}).Run(ctx, history.Cursor{}, func(list []history.Event) error {
		for i := range list {
			if a.Kind == "thread" && list[i].StreamType == events.NovelStream {
				continue
			}
			recorded, err := list[i].Decode()
			if err != nil {
				return err
			}
			found.history = append(found.history, recorded)
		}
		return nil
	}, func() error { return nil }) // nothing to do between pages
	if err != nil {
		return nil, err
	}
	if len(found.history) == 0 {
		return nil, errors.New("there is no history of " + a.Kind + " " + a.Name)
	}
	if kind := found.history[0].StreamType; a.Kind != "thread" && kind != a.Kind {
		return nil, fmt.Errorf("%s is of kind %s", a.Name, kind)
	}
	return found, nil
}

// plainLength is the maximum length of a value in text output, in characters.
const plainLength = 120

// plain returns a JSON value as text of at most plainLength characters: a string without its quotes, "-" for null.
func plain(value jsontext.Value) string {
	text := string(value)
	switch value.Kind() {
	case 'n':
		return "-"
	case '"':
		if err := json.Unmarshal(value, &text); err != nil {
			return string(value)
		}
	}
	return fmt.Sprintf("%.*s", plainLength, text)
}
