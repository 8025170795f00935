package main

import (
	"context"
	"fmt"
	"maps"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/staff"
	"novelgate/internal/database"
	"novelgate/readapi/accesslog"
	"novelgate/readapi/history"
)

// EventsCommand is `novelgate events …`.
type EventsCommand struct {
	List      EventsList      `cmd:"" help:"List events, oldest first."`
	Tail      EventsTail      `cmd:"" help:"Show events as they happen, until interrupted; from now on, unless --after, --from or --cursor say otherwise."`
	Show      EventsShow      `cmd:"" help:"Show one event as a CloudEvent."`
	Replay    EventsReplay    `cmd:"" help:"Show a novel, a thread or an integration as it stood."`
	Diff      EventsDiff      `cmd:"" help:"Show what changed of a novel, a thread or an integration between two points."`
	Export    EventsExport    `cmd:"" help:"Write the history to a directory that can be verified anywhere."`
	Verify    EventsVerify    `cmd:"" help:"Verify the history in a bundle, in the database, or of a running service against its ledger."`
	Rebase    EventsRebase    `cmd:"" help:"Make a history readable that was restored from a dump into another PostgreSQL cluster."`
	AccessLog EventsAccessLog `cmd:"" name:"access-log" help:"Show who read the history, newest first."`
}

// EventFilterFlags say which events are wanted.
type EventFilterFlags struct {
	After       *int64     `placeholder:"INDEX" help:"Behind the event with this log index."`
	Before      *int64     `placeholder:"INDEX" help:"In front of the event with this log index."`
	Stream      *uuid.UUID `placeholder:"ID" help:"Of this aggregate."`
	StreamType  string     `name:"stream-type" placeholder:"TYPE" help:"Of aggregates of this kind: novel, thread, post, author, integration, person, projection."`
	Type        string     `placeholder:"TYPE" help:"Of this type, such as novel.created.v1."`
	Integration string     `placeholder:"ID|NAME" help:"Caused by this integration, of its own stream, or about its users."`
	Novel       string     `placeholder:"ID|TITLE" help:"Of this novel, of its thread and of its comments."`
	From        *instant   `placeholder:"TIME" help:"Recorded at this time (RFC 3339) or later."`
	To          *instant   `placeholder:"TIME" help:"Recorded before this time."`
	Correlation string     `placeholder:"ID" help:"Of this undertaking: a correlation or request id."`
	Cursor      string     `placeholder:"CURSOR" help:"Behind this cursor, which every event carries in its JSON."`
}

// filter resolves names and titles.
func (f *EventFilterFlags) filter(in *invocation, pool *pgxpool.Pool) (history.Filter, error) {
	filter := history.Filter{
		After: f.After, Before: f.Before, StreamType: f.StreamType, Type: f.Type, Correlation: f.Correlation,
		From: f.From.moment(), To: f.To.moment(),
	}
	if f.Stream != nil {
		filter.Stream = uuid.NullUUID{UUID: *f.Stream, Valid: true}
	}
	var err error
	if f.Integration != "" {
		if filter.Integration, err = idOr(f.Integration,
			func() (uuid.UUID, error) { return integrationID(in, pool, f.Integration) }); err != nil {
			return history.Filter{}, err
		}
	}
	if f.Novel != "" {
		if filter.Novel, err = idOr(f.Novel, func() (uuid.UUID, error) { return novelID(in, pool, f.Novel) }); err != nil {
			return history.Filter{}, err
		}
	}
	return filter, nil
}

// parameters are the flags as the access log keeps them.
func (f *EventFilterFlags) parameters() map[string]string {
	all := map[string]string{
		"stream-type": f.StreamType, "type": f.Type, "integration": f.Integration, "novel": f.Novel,
		"correlation": f.Correlation, "cursor": f.Cursor,
	}
	if f.After != nil {
		all["after"] = strconv.FormatInt(*f.After, 10)
	}
	if f.Before != nil {
		all["before"] = strconv.FormatInt(*f.Before, 10)
	}
	if f.Stream != nil {
		all["stream"] = f.Stream.String()
	}
	if f.From != nil {
		all["from"] = f.From.Format(time.RFC3339Nano)
	}
	if f.To != nil {
		all["to"] = f.To.Format(time.RFC3339Nano)
	}
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}

func idOr(text string, find func() (uuid.UUID, error)) (uuid.NullUUID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		id, err = find()
	}
	return uuid.NullUUID{UUID: id, Valid: err == nil}, err
}

func integrationID(in *invocation, pool *pgxpool.Pool, idOrName string) (uuid.UUID, error) {
	found, err := (&staff.Staff{Pool: pool, Now: in.now}).Integration(in.ctx, idOrName)
	return found.ID, err
}

func novelID(in *invocation, pool *pgxpool.Pool, title string) (uuid.UUID, error) {
	found, err := (&staff.Staff{Pool: pool, Now: in.now}).Novel(in.ctx, title)
	return found.NovelID, err
}

// withHistory runs do, which reads the history, and records that. do returns how many rows it has shown.
func (f DatabaseFlags) withHistory(
	in *invocation, command string, parameters map[string]string, do func(pool *pgxpool.Pool) (int64, error),
) error {
	url, err := f.url(in.ctx)
	if err != nil {
		return err
	}
	return recorded(in, url, command, parameters, do)
}

// recorded runs do on the history of a database, and records that.
func recorded(
	in *invocation, url, command string, parameters map[string]string, do func(pool *pgxpool.Pool) (int64, error),
) error {
	pool, err := database.OpenHistory(in.ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	log := &accesslog.Log{DB: pool}
	entry, err := log.Begin(in.ctx, &accesslog.Read{
		Person:    accesslog.Person{Role: accesslog.CLI, Name: operatingSystemUser()},
		RequestID: uuid.Must(uuid.NewV7()).String(),
		Route:     "novelgate events " + command, Parameters: parameters,
	})
	if err != nil {
		return err
	}
	rows, err := do(pool)
	// An interrupt ends the reading, and the entry is completed all the same.
	if endErr := log.End(context.WithoutCancel(in.ctx), entry, rows); err == nil {
		err = endErr
	}
	return err
}

func operatingSystemUser() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "unknown"
}

// lineOf shows an event on one line.
func lineOf(e *history.Event) string {
	index := "-"
	if e.LogIndex != nil {
		index = strconv.FormatInt(*e.LogIndex, 10)
	}
	return strings.Join([]string{
		fmt.Sprintf("%8s", index), e.RecordedAt.UTC().Format("2006-01-02 15:04:05.000000Z"),
		fmt.Sprintf("%-34s", printable(e.Type)),
		e.StreamType + "/" + e.StreamID.String() + "/" + strconv.Itoa(e.StreamVersion), printable(e.Metadata.Actor),
		printable(e.ID),
	}, "  ")
}
