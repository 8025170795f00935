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

	"novelgate/aggregates/replay"
	"novelgate/events"
	"novelgate/internal/web"
	"novelgate/readapi/history"
)

type eventsReplay struct {
	CommonFlags
	Kind string `arg:"" enum:"novel,thread,integration" help:"novel, thread or integration."`
	Name string `arg:"" help:"Title or id of the novel (for a thread too), name or id of the integration."`
	At   string `required:"" placeholder:"TIME|INDEX" help:"Time (RFC 3339), or log index of the last event to include."`
}

func (c *eventsReplay) Run(ctx context.Context, env *env) error {
	out := c.output(env)
	parameters := map[string]string{"at": c.At, "kind": c.Kind, "name": c.Name}
	return c.withAccessLog(ctx, "replay", parameters, func(pool *pgxpool.Pool) (int64, error) {
		state, rows, err := c.state(ctx, pool)
		if err != nil {
			return rows, err
		}
		encoded, err := json.Marshal(state, json.Deterministic(true))
		if err != nil {
			return rows, fmt.Errorf("print state: %w", err)
		}
		return rows, out.print(jsontext.Value(encoded), func() {
			if thread, ok := state.(replay.Thread); ok {
				printThread(out, thread)
				return
			}
			var fields map[string]jsontext.Value
			if err := json.Unmarshal(encoded, &fields); err != nil {
				panic(err) // it was encoded above
			}
			table := [][]any{{"FIELD", "VALUE"}}
			for _, name := range slices.Sorted(maps.Keys(fields)) {
				text := string(fields[name])
				switch fields[name].Kind() {
				case 'n':
					text = "-"
				case '"':
					_ = json.Unmarshal(fields[name], &text)
				default: // as it is
				}
				table = append(table, []any{name, text})
			}
			out.table(table)
		})
	})
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
	find, selected := novelID, &filter.Stream
	switch filter.StreamType = c.Kind; c.Kind {
	case "integration":
		find = integrationID
	case "thread": // with the events of its comments
		selected, filter.StreamType = &filter.Novel, ""
	}
	if *selected, err = find(ctx, pool, c.Name); err != nil {
		return nil, 0, err
	}
	reader, err := history.NewReader(ctx, pool, filter)
	if err != nil {
		return nil, 0, err
	}
	var read []events.Recorded
	err = (&history.Stream{Reader: reader}).Run(ctx, history.Cursor{}, func(list []history.Event) error {
		for i := range list {
			if c.Kind == "thread" && list[i].StreamType == events.NovelStream {
				continue
			}
			recorded, err := list[i].Decode()
			if err != nil {
				return err
			}
			read = append(read, recorded)
		}
		return nil
	}, func() error { return nil }) // nothing to do between pages
	if err != nil {
		return nil, 0, err
	}
	rows = int64(len(read))
	until := replay.Until(moment, read)
	if len(until) == 0 {
		return nil, rows, fmt.Errorf("%s %q did not exist then", c.Kind, c.Name)
	}
	switch c.Kind {
	case "novel":
		state = replay.NovelOf(selected.UUID, until)
	case "thread":
		state = replay.ThreadOf(selected.UUID, until)
	default:
		state = replay.IntegrationOf(selected.UUID, until)
	}
	return state, rows, nil
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
