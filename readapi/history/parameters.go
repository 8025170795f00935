package history

import (
	"maps"
	"math"
	"net/http"
	"slices"

	"novelgate/internal/web"
)

// The sizes of pages.
const (
	defaultPage = 100
	maxPage     = 1000
)

// Range is the part of the log, or of a feed from it, that a client requests as a page or as a stream.
type Range struct {
	Cursor Cursor // start after it
	Now    bool   // start at the end of the log, instead of after Cursor
	Lines  bool   // as a stream (NDJSON); false: as a page
	Follow bool   // the stream continues at the end of the log
	Limit  int    // maximum number of events; 0: a stream without a limit
}

// ParseRange parses the parameters cursor, limit and follow, and the Accept header.
func ParseRange(r *http.Request, q *web.Query) Range {
	requested := Range{Lines: web.AcceptsByName(r, web.LineMediaType)}
	var err error
	if requested.Now = q.Text("cursor") == "now"; !requested.Now {
		if requested.Cursor, err = ParseCursor(q.Text("cursor")); err != nil {
			q.Refuse("cursor", err.Error())
		}
	}
	if requested.Lines {
		requested.Limit = q.Limit(0, math.MaxInt)
	} else {
		requested.Limit = q.Limit(defaultPage, maxPage)
	}
	if follow := q.Bool("follow"); follow != nil {
		if requested.Follow = *follow; requested.Follow && !requested.Lines {
			q.Refuse("follow", "needs Accept: "+web.LineMediaType)
		}
	}
	return requested
}

// options are the parameters of a request for events.
type options struct {
	Range
	filter Filter
}

// parse parses the parameters of a request for events.
func parse(rd *readRequest) (*options, error) {
	q := rd.query
	o := &options{
		Range: ParseRange(rd.Request, q),
		filter: Filter{
			After: q.Index("after"), Before: q.Index("before"), Stream: q.ID("stream"), StreamType: q.Text("streamType"),
			Type: q.Text("type"), Integration: q.ID("integration"), Novel: q.ID("novel"), Correlation: q.Text("correlation"),
			From: q.Time("from"), To: q.Time("to"),
		},
	}
	if o.Follow && (o.filter.Before != nil || o.filter.To != nil) {
		q.Refuse("follow", "does not end: it cannot be combined with before or to")
	}
	// An empty parameter is refused, because it would act as no filter.
	sent := q.All()
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		if sent[name] == "" && name != "cursor" {
			q.Refuse(name, "must not be empty")
		}
	}
	return o, q.Err()
}
