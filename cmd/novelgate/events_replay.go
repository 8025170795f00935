package main

import (
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

// ThingArgs name what is looked at.
type ThingArgs struct {
	Kind string `arg:"" enum:"novel,thread,integration" help:"novel, thread or integration."`
	Name string `arg:"" help:"Title or id of the novel (for a thread too), name or id of the integration."`
}

// EventsReplay is `novelgate events replay`.
type EventsReplay struct {
	DatabaseFlags
	OutputFlags
	ThingArgs
	At string `required:"" placeholder:"TIME|INDEX" help:"Time (RFC 3339), or log index of the last event that counts."`
}

// Run prints the thing as it stood.
func (c *EventsReplay) Run(in *invocation) error {
	parameters := map[string]string{"at": c.At, "kind": c.Kind, "name": c.Name}
	return c.withHistory(in, "replay", parameters, func(pool *pgxpool.Pool) (int64, error) {
		at, err := history.ParsePoint(in.ctx, pool, c.At)
		if err != nil {
			return 0, fmt.Errorf("--at: %w", err)
		}
		t, err := c.read(in, pool)
		if err != nil {
			return 0, err
		}
		state, exists := t.at(at)
		if !exists {
			return int64(len(t.history)), fmt.Errorf("%s %q did not exist then", c.Kind, c.Name)
		}
		return int64(len(t.history)), c.print(in, state, func() { printState(in, state) })
	})
}

// EventsDiff is `novelgate events diff`.
type EventsDiff struct {
	DatabaseFlags
	OutputFlags
	ThingArgs
	From string `required:"" placeholder:"TIME|INDEX" help:"Time (RFC 3339), or log index of the last event before the changes."`
	To   string `required:"" placeholder:"TIME|INDEX" help:"Time, or log index of the last event that counts."`
}

// Run prints the fields that changed.
func (c *EventsDiff) Run(in *invocation) error {
	parameters := map[string]string{"from": c.From, "to": c.To, "kind": c.Kind, "name": c.Name}
	return c.withHistory(in, "diff", parameters, func(pool *pgxpool.Pool) (int64, error) {
		from, err := history.ParsePoint(in.ctx, pool, c.From)
		if err != nil {
			return 0, fmt.Errorf("--from: %w", err)
		}
		to, err := history.ParsePoint(in.ctx, pool, c.To)
		if err != nil {
			return 0, fmt.Errorf("--to: %w", err)
		}
		t, err := c.read(in, pool)
		if err != nil {
			return 0, err
		}
		rows := int64(len(t.history))
		if from.After(to) || len(from.Until(t.history)) > len(to.Until(t.history)) {
			return rows, errors.New("--from is later than --to")
		}
		before, existedBefore := t.at(from)
		after, existsAfter := t.at(to)
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
		if err != nil {
			return rows, err
		}
		return rows, c.print(in, changes, func() { printChanges(in, changes) })
	})
}

// thing is what there is to know of a novel, a thread or an integration.
type thing struct {
	kind    string
	id      uuid.UUID // of the novel, for a thread
	history []events.Recorded
}

// at returns the state at a point, and whether the thing existed.
func (t *thing) at(point history.Point) (state any, exists bool) {
	until := point.Until(t.history)
	switch t.kind {
	case "novel":
		state = replay.NovelOf(t.id, until)
	case "thread":
		state = replay.ThreadOf(t.id, until)
	default:
		state = replay.IntegrationOf(t.id, until)
	}
	return state, len(until) > 0
}

// read reads the history of the thing.
func (a *ThingArgs) read(in *invocation, pool *pgxpool.Pool) (*thing, error) {
	t := &thing{kind: a.Kind}
	find := func() (uuid.UUID, error) { return novelID(in, pool, a.Name) }
	if a.Kind == "integration" {
		find = func() (uuid.UUID, error) { return integrationID(in, pool, a.Name) }
	}
	id, err := idOr(a.Name, find)
	if err != nil {
		return nil, err
	}
	t.id = id.UUID
	filter := history.Filter{Stream: id}
	if a.Kind == "thread" {
		filter = history.Filter{Novel: id}
	}
	reader, err := history.NewReader(in.ctx, pool, filter)
	if err != nil {
		return nil, err
	}
	err = (&history.Stream{Reader: reader}).Run(in.ctx, history.Cursor{}, func(list []history.Event) error {
		for i := range list {
			if a.Kind == "thread" && list[i].StreamType == events.NovelStream {
				continue
			}
			recorded, err := list[i].Decode()
			if err != nil {
				return err
			}
			t.history = append(t.history, recorded)
		}
		return nil
	}, func() error { return nil })
	if err != nil {
		return nil, err
	}
	if len(t.history) == 0 {
		return nil, errors.New("there is no history of " + a.Kind + " " + a.Name)
	}
	if kind := t.history[0].StreamType; a.Kind != "thread" && kind != a.Kind {
		return nil, fmt.Errorf("%s is of kind %s", a.Name, kind)
	}
	return t, nil
}

// printState prints the fields of a state by name; of a thread, its comments.
func printState(in *invocation, state any) {
	if t, ok := state.(replay.Thread); ok {
		printThread(in, t)
		return
	}
	changes, err := replay.Diff(struct{}{}, state)
	if err != nil {
		fmt.Fprintln(in.stderr, err)
		return
	}
	rows := make([][]any, 0, len(changes))
	for _, change := range changes {
		rows = append(rows, []any{change.Field, plain(change.After)})
	}
	in.table([]any{"FIELD", "VALUE"}, rows)
}

func printThread(in *invocation, t replay.Thread) {
	fmt.Fprintf(in.stdout, "thread %s of novel %s: %d comments\n", t.ThreadID, t.NovelID, len(t.Posts))
	rows := make([][]any, len(t.Posts))
	for i, p := range t.Posts {
		parent := "-"
		if p.ParentPostID != nil {
			parent = p.ParentPostID.String()
		}
		rows[i] = []any{p.PostID, parent, moment(&p.WrittenAt), p.LastEvent, p.Username, fmt.Sprintf("%.60s", p.Content)}
	}
	in.table([]any{"POST", "REPLY TO", "WRITTEN", "LAST EVENT", "BY", "CONTENT"}, rows)
}

func printChanges(in *invocation, changes []replay.Change) {
	rows := make([][]any, 0, len(changes))
	for _, change := range changes {
		rows = append(rows, []any{change.Field, plain(change.Before), plain(change.After)})
	}
	in.table([]any{"FIELD", "BEFORE", "AFTER"}, rows)
}

// plainLength is how much of a value people are shown, in characters.
const plainLength = 120

// plain shows a JSON value to people.
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
