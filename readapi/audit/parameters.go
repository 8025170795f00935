package audit

import (
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"novelgate/readapi/answer"
	"novelgate/readapi/history"
)

// The sizes of pages.
const (
	defaultPage = 100
	maxPage     = 1000
)

// options are what a request for events asks for.
type options struct {
	filter history.Filter
	cursor history.Cursor
	now    bool // instead of cursor: behind what has settled
	limit  int  // 0: not given
	lines  bool
	follow bool
}

// parse reads the parameters of a request for events. Every parameter must be known: a filter with a typing error must
// not look like one that lets everything through.
func parse(rd *read) (*options, error) {
	o := &options{lines: answer.Names(rd.Request, lineMediaType)}
	for name, text := range rd.query {
		set, known := setters[name]
		if !known {
			return nil, invalid(name, "is no parameter of this address")
		}
		if message := set(o, text); message != "" {
			return nil, invalid(name, message)
		}
	}
	f := &o.filter
	switch {
	case o.follow && !o.lines:
		return nil, invalid("follow", "needs Accept: application/x-ndjson")
	case o.follow && (f.Before != nil || f.To != nil):
		return nil, invalid("follow", "has no end: it goes with neither before nor to")
	case !o.lines && o.limit > maxPage:
		return nil, invalid("limit", fmt.Sprintf("must be a number from 1 to %d", maxPage))
	}
	return o, nil
}

// setters take the text of a parameter and return what is wrong with it.
var setters = map[string]func(o *options, text string) string{
	"after":       func(o *options, text string) string { return setIndex(&o.filter.After, text) },
	"before":      func(o *options, text string) string { return setIndex(&o.filter.Before, text) },
	"stream":      func(o *options, text string) string { return setID(&o.filter.Stream, text) },
	"streamType":  func(o *options, text string) string { return setText(&o.filter.StreamType, text) },
	"type":        func(o *options, text string) string { return setText(&o.filter.Type, text) },
	"integration": func(o *options, text string) string { return setID(&o.filter.Integration, text) },
	"novel":       func(o *options, text string) string { return setID(&o.filter.Novel, text) },
	"correlation": func(o *options, text string) string { return setText(&o.filter.Correlation, text) },
	"from":        func(o *options, text string) string { return setTime(&o.filter.From, text) },
	"to":          func(o *options, text string) string { return setTime(&o.filter.To, text) },
	"cursor": func(o *options, text string) string {
		if o.now = text == "now"; o.now {
			return ""
		}
		var err error
		if o.cursor, err = history.ParseCursor(text); err != nil {
			return err.Error()
		}
		return ""
	},
	"limit": func(o *options, text string) string {
		var err error
		if o.limit, err = strconv.Atoi(text); err != nil || o.limit < 1 {
			return fmt.Sprintf("must be a number from 1 to %d, or from 1 on for NDJSON", maxPage)
		}
		return ""
	},
	"follow": func(o *options, text string) string {
		o.follow = text == "true"
		if text != "true" && text != "false" {
			return "must be true or false"
		}
		return ""
	},
}

func setIndex(target **int64, text string) string {
	index, err := strconv.ParseInt(text, 10, 64)
	if err != nil || index < 0 {
		return "must be a log index: 0 or more"
	}
	*target = &index
	return ""
}

func setID(target *uuid.NullUUID, text string) string {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != len(uuid.Nil.String()) {
		return "must be a UUID"
	}
	*target = uuid.NullUUID{UUID: id, Valid: true}
	return ""
}

func setText(target *string, text string) string {
	if text == "" {
		return "must not be empty"
	}
	*target = text
	return ""
}

func setTime(target **time.Time, text string) string {
	t, err := history.ParseTime(text)
	if err != nil {
		return "must be a time with its zone, such as 2026-01-31T12:00:00Z"
	}
	*target = &t
	return ""
}

// lineMediaType is that of a stream: one event on each line.
const lineMediaType = "application/x-ndjson"
