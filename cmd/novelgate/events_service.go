package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/readapi/history"
)

// cloudEvent has the attributes of a CloudEvent that a line of text shows.
type cloudEvent struct {
	ID            string    `json:"id"`
	Type          string    `json:"type"`
	Time          time.Time `json:"time"`
	StreamType    string    `json:"streamtype"`
	StreamID      uuid.UUID `json:"streamid"`
	StreamVersion int       `json:"streamversion"`
	LogIndex      int64     `json:"logindex,string"`
	Actor         string    `json:"actor"`

	Data     jsontext.Value `json:"data"`
	Personal string         `json:"personal"`
}

// readService reads the events through the service, which records the read.
func (c *eventsList) readService(
	ctx context.Context, env *environment, parameters map[string]string,
	do func(*history.Event, staff.Names, []byte) error,
) error {
	if c.Newest {
		return errors.New("--newest needs the database: run it where that can be reached, without --url and NOVELGATE_URL")
	}
	s, err := env.service.open(env.tellWaiting())
	if err != nil {
		return err
	}
	query := url.Values{}
	for name, value := range parameters {
		if value == "" || name == "limit" {
			continue
		}
		if name == "stream-type" {
			name = "streamType"
		}
		query.Set(name, value)
	}
	err = staff.EachItem(ctx, s, "/api/events", query, c.Limit.readLimit(), nil, func(
		text jsontext.Value, names staff.Names,
	) error {
		var e cloudEvent
		if err := json.Unmarshal(text, &e); err != nil {
			return fmt.Errorf("decode event: %w", err)
		}
		return do(&history.Event{Row: eventlog.Row{
			ID: e.ID, Type: e.Type, RecordedAt: e.Time, StreamType: e.StreamType, StreamID: e.StreamID,
			StreamVersion: e.StreamVersion, LogIndex: e.LogIndex, Metadata: events.Metadata{Actor: e.Actor},
			Data: e.Data, Personal: []byte(e.Personal),
		}}, names, text)
	})
	if err != nil && err.Error() == history.ErrBeyond.Error() { // the problem that history.Problem makes of it
		return history.ErrBeyond
	}
	return err
}

// readService reads the access log through the service, which records the read.
func (c *eventsAccessLog) readService(ctx context.Context, env *environment) (list []history.AccessEntry, err error) {
	s, err := env.service.open(env.tellWaiting())
	if err != nil {
		return nil, err
	}
	err = staff.EachItem(ctx, s, "/api/access-log", url.Values{}, c.Limit.readLimit(), nil,
		func(e history.AccessEntry, _ staff.Names) error {
			list = append(list, e)
			return nil
		})
	return list, err
}
