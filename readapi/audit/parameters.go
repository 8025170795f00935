package audit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"novelgate/internal/httpkit"
	"novelgate/readapi/history"
)

// The sizes of pages.
const (
	defaultPage = 100
	maxPage     = 1000
)

// lineMediaType is the media type of a stream with one event per line.
const lineMediaType = "application/x-ndjson"

// options are the parameters of a request for events.
type options struct {
	filter history.Filter
	cursor history.Cursor
	now    bool // start after the settled events, instead of at cursor
	limit  int  // 0: not given
	lines  bool
	follow bool
}

// parse parses the parameters of a request for events.
func parse(rd *read) (*options, error) {
	q := rd.query
	o := &options{
		lines: httpkit.Names(rd.Request, lineMediaType),
		filter: history.Filter{
			After: q.Index("after"), Before: q.Index("before"), Stream: q.ID("stream"), StreamType: q.Text("streamType"),
			Type: q.Text("type"), Integration: q.ID("integration"), Novel: q.ID("novel"), Correlation: q.Text("correlation"),
			From: q.Time("from"), To: q.Time("to"),
		},
	}
	if follow := q.Bool("follow"); follow != nil {
		o.follow = *follow
	}
	var err error
	if o.now = q.Text("cursor") == "now"; !o.now {
		if o.cursor, err = history.ParseCursor(q.Text("cursor")); err != nil {
			q.Refuse("cursor", err.Error())
		}
	}
	if q.Given("limit") {
		o.limit, err = strconv.Atoi(q.Text("limit"))
		if err != nil || o.limit < 1 || !o.lines && o.limit > maxPage {
			q.Refuse("limit", fmt.Sprintf("must be a number from 1 to %d, or from 1 on for NDJSON", maxPage))
		}
	}
	switch {
	case o.follow && !o.lines:
		q.Refuse("follow", "needs Accept: application/x-ndjson")
	case o.follow && (o.filter.Before != nil || o.filter.To != nil):
		q.Refuse("follow", "has no end: it goes with neither before nor to")
	}
	// An empty parameter is refused, because it would act as no filter.
	sent := q.All()
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		if sent[name] == "" && name != "cursor" {
			q.Refuse(name, "must not be empty")
		}
	}
	return o, q.Err() //nolint:wrapcheck // already a problem
}
