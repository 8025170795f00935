package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/title"
	"novelgate/internal/web"
	"novelgate/readapi/history"
)

type eventsReplay struct {
	CommonFlags
	Kind string `arg:"" enum:"novel,thread,integration" help:"novel, thread or integration."`
	Name string `arg:"" help:"Title or id of the novel (for a thread too), name or id of the integration."`
	At   string `required:"" placeholder:"TIME|INDEX" help:"Time (RFC 3339), or log index of the last event to include."`
}

func (c *eventsReplay) run(ctx context.Context, env *environment) error {
	parameters := map[string]string{"at": c.At, "kind": c.Kind, "name": c.Name}
	return env.withAccessLog(ctx, parameters, func(pool *pgxpool.Pool) (int64, error) {
		state, rows, err := c.state(ctx, pool)
		return rows, env.show(result{state, func(env *environment) { printState(env, state) }}, err)
	})
}

func printState(env *environment, state any) {
	if t, ok := state.(history.Thread); ok {
		fmt.Fprintf(env.stdout, "thread %s of novel %s: %d comments\n", t.ThreadID, t.NovelID, len(t.Posts))
		threadColumns.print(env, t.Posts...)
		return
	}
	var fields map[string]jsontext.Value
	encoded, err := json.Marshal(state)
	if err == nil {
		err = json.Unmarshal(encoded, &fields)
	}
	if err != nil {
		panic(err) // the state consists of plain values
	}
	rows := [][]any{{"FIELD", "VALUE"}}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := string(fields[name])
		switch fields[name].Kind() {
		case 'n':
			value = "-"
		case '"':
			_ = json.Unmarshal(fields[name], &value)
		default: // as it is
		}
		rows = append(rows, []any{name, value})
	}
	env.table(rows...)
}

// state reads the history up to --at, and folds it. rows is the number of events that it has read.
func (c *eventsReplay) state(ctx context.Context, pool *pgxpool.Pool) (state any, rows int64, err error) {
	var filter history.Filter
	moment := time.Unix(1<<40, 0) // after every event
	if index, err := strconv.ParseInt(c.At, 10, 64); err == nil {
		if _, err := history.At(ctx, pool, index); err != nil {
			return nil, 0, fmt.Errorf("--at: event %d: %w", index, err)
		}
		filter.Before = new(index + 1)
	} else if moment, err = web.ParseTime(c.At); err != nil {
		return nil, 0, fmt.Errorf("--at: %q is neither a log index nor a time: it %w", c.At, err)
	}
	selected := &filter.Stream
	if filter.StreamType = c.Kind; c.Kind == "thread" { // with the events of its comments
		selected, filter.StreamType = &filter.Novel, ""
	}
	if *selected, err = findID(ctx, &staff.Staff{Pool: pool}, c.Kind, c.Name); err != nil {
		return nil, 0, err
	}
	var read []events.Recorded
	err = readHistory(ctx, pool, filter, 0, func(e *history.Event, _ staff.Names) error {
		if c.Kind == "thread" && e.StreamType == events.NovelStream {
			return nil
		}
		recorded, err := e.Decode()
		read = append(read, recorded)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	rows = int64(len(read))
	until := history.Until(moment, read)
	if len(until) == 0 {
		return nil, rows, fmt.Errorf("%s %q did not exist then", c.Kind, c.Name)
	}
	switch c.Kind {
	case "novel":
		state = history.NovelOf(selected.UUID, until)
	case "thread":
		state = history.ThreadOf(selected.UUID, until)
	default:
		state = history.IntegrationOf(selected.UUID, until)
	}
	return state, rows, nil
}

var threadColumns = columns[history.Post]{
	[]any{"POST", "REPLY TO", "WRITTEN", "LAST EVENT", "BY", "CONTENT"},
	func(p history.Post) []any {
		return []any{
			p.PostID, orDash(p.ParentPostID), formatTime(&p.WrittenAt), p.LastEvent, p.Username, title.Clip(p.Content, 60),
		}
	},
}
