package console

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/events"
	"novelgate/events/ledger"
	"novelgate/internal/names"
	"novelgate/internal/problem"
	"novelgate/internal/web"
	"novelgate/readapi/history"
)

func (c *Console) historyPages() []page {
	filters := []string{
		"type", "integration", "novel", "actor", "day", "from", "to", "stream", "correlation", "after", "before",
	}
	return []page{
		c.recorded("/history", filters, c.history),
		c.recorded("/history/reads", []string{"before"}, c.reads),
		c.recorded("/history/streams/{streamType}/{streamId}", filters, c.history),
		c.recorded("/history/{logIndex}", nil, c.event),
		// Like /ledger/proof, which is public and not recorded: it has no data, only digests.
		{path: "/history/{logIndex}/proof", show: c.proofFile},
	}
}

// recorded returns a page that reads the history. As with the routes of auditors, its entry in the access log is
// committed before anything is read, and completed after the answer. read returns how many rows the page shows.
func (c *Console) recorded(
	path string, query []string, read func(ctx context.Context, v *visit) (*view, int, error),
) page {
	return page{path: path, query: query, show: func(ctx context.Context, v *visit) (*view, error) {
		log, entry, err := c.beginRead(ctx, v, path)
		if err != nil {
			return nil, err
		}
		shown, rows, err := read(ctx, v)
		c.send(v, shown, err)
		_ = http.NewResponseController(v.writer).Flush() // the browser does not wait for the entry to be completed
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := log.End(ending, entry, int64(rows)); err != nil {
			c.Kit.Logger.WarnContext(ctx, "cannot record the rows of a read in the access log", slog.Int64("entry", entry),
				slog.Any("error", err))
		}
		return nil, nil
	}}
}

// beginRead commits an entry of the access log. It has no identifier of an author, which could not be erased there.
func (c *Console) beginRead(ctx context.Context, v *visit, path string) (*history.AccessLog, int64, error) {
	log := &history.AccessLog{DB: c.History}
	sent := map[string]string{}
	for name, value := range v.query.All() {
		if value != "" && name != "uuid" { // an empty field of a form
			sent[name] = value
		}
	}
	for name, value := range mux.Vars(v.Request) {
		if name != "uuid" {
			sent["{"+name+"}"] = strings.ToValidUTF8(value, "?")
		}
	}
	entry, err := log.Begin(ctx, &history.Access{
		Role: v.user.Role, Name: v.user.Name,
		PersonID:  uuid.NullUUID{UUID: v.user.ID, Valid: true},
		KeyID:     uuid.NullUUID{UUID: v.user.KeyID, Valid: true},
		RequestID: web.RequestID(ctx), Route: "/console" + path, Parameters: sent,
	})
	return log, entry, err
}

// historyBody is what a list of events shows, newest first.
type historyBody struct {
	Path       string     // of the list without its filters
	Filter     url.Values // as sent
	From, To   string     // as their fields need them
	Types      []string
	StreamType string // of the stream that is shown; "" in the list of all events
	Stream     string
	Name       string // of the stream; "" without one
	Events     []eventLine
	Newer      string // path of the list of newer events
	Next       string // path of the next page; "" on the last one
	Examined   *int64 // the log was examined down to this index, without filling the page
}

// eventLine is an event in a list.
type eventLine struct {
	*history.Event

	Name, ActorName, Summary string
	Link                     string // path of the page of what it is about; "" without one
}

// searchTime limits the search for events that pass a filter without an index. The next page continues it.
const searchTime = 150 * time.Millisecond

// history shows a list of events: all, or those of a stream.
func (c *Console) history(ctx context.Context, v *visit) (*view, int, error) {
	path := strings.TrimPrefix(v.URL.Path, "/console")
	body := &historyBody{Path: path, Filter: v.URL.Query(), Types: events.Types()}
	filter, err := c.historyFilter(ctx, v, body)
	if err != nil {
		return nil, 0, err
	}
	reader, err := history.NewReader(ctx, c.History, filter)
	if err != nil {
		return nil, 0, err
	}
	var found []history.Event
	page := history.Older{Before: math.MaxInt64, More: true}
	if filter.Before == nil {
		end, err := reader.End(ctx)
		if err != nil {
			return nil, 0, err
		}
		page.Before = int64(end.Position)
	}
	for page.More && len(found) < pageSize {
		if page, err = reader.Older(ctx, page.Before, pageSize-len(found)); err != nil {
			return nil, 0, err
		}
		found = append(found, page.Events...)
		if c.Kit.Now().Sub(v.at) > searchTime {
			break
		}
	}
	if body.Events, err = c.eventLines(ctx, found); err != nil {
		return nil, 0, err
	}
	if page.More {
		body.Next = nextPage(v, "before", strconv.FormatInt(page.Before, 10))
		if len(found) < pageSize {
			body.Examined = &page.Before
		}
	}
	newer := v.URL.Query()
	newer.Del("before")
	if len(found) > 0 {
		newer.Set("after", strconv.FormatInt(found[0].LogIndex, 10))
	}
	body.Newer = path + "?" + newer.Encode()
	title := "History"
	if body.StreamType != "" {
		title = "History of a stream: " + body.StreamType
	}
	return &view{template: "history", title: title, body: body}, len(found), nil
}

// historyFilter reads the filters of a list.
func (c *Console) historyFilter(ctx context.Context, v *visit, body *historyBody) (filter history.Filter, err error) {
	q := v.query
	filter = history.Filter{
		After: q.Index("after"), Before: q.Index("before"), Stream: q.ID("stream"), Type: q.Text("type"),
		Correlation: q.Text("correlation"), From: utc(q, "from"), To: utc(q, "to"),
	}
	named := history.Named{
		Integration: q.Text("integration"), Novel: q.Text("novel"), Actor: q.Text("actor"), Day: q.Text("day"),
	}
	if err := q.Err(); err != nil {
		return filter, err
	}
	if text, ok := mux.Vars(v.Request)["streamId"]; ok {
		id, _ := web.ParseID(text)
		kind, err := history.StreamType(ctx, c.History, id)
		if err != nil {
			return filter, err
		}
		if kind != mux.Vars(v.Request)["streamType"] {
			return filter, history.ErrNotFound
		}
		filter.Stream = uuid.NullUUID{UUID: id, Valid: true}
		called, err := names.Of(ctx, c.History, id)
		if err != nil {
			return filter, err
		}
		body.StreamType, body.Stream, body.Name = kind, id.String(), called[id]
	}
	if err := named.Resolve(ctx, c.History, &filter); err != nil {
		return filter, err
	}
	// The fields for times take no zone.
	const field = "2006-01-02T15:04:05"
	if filter.From != nil && named.Day == "" {
		body.From = filter.From.UTC().Format(field)
	}
	if filter.To != nil && named.Day == "" {
		body.To = filter.To.UTC().Format(field)
	}
	return c.withoutTimes(ctx, filter)
}

// withoutTimes replaces the times of a filter by log indexes, which need no search.
func (c *Console) withoutTimes(ctx context.Context, filter history.Filter) (history.Filter, error) {
	if filter.From != nil {
		first, err := history.IndexesAt(ctx, c.History, *filter.From)
		if err != nil {
			return filter, err
		}
		if after := first[0] - 1; after >= 0 && (filter.After == nil || *filter.After < after) {
			filter.After = &after
		}
	}
	if filter.To != nil {
		end, err := history.IndexesAt(ctx, c.History, *filter.To)
		if err != nil {
			return filter, err
		}
		if filter.Before == nil || *filter.Before > end[0] {
			filter.Before = &end[0]
		}
	}
	filter.From, filter.To = nil, nil
	return filter, nil
}

// utc returns a parameter that is a time, also as the fields of forms send it: without a zone, and perhaps without
// seconds. It is UTC then.
func utc(q *web.Query, name string) *time.Time {
	text := q.Text(name)
	if text == "" {
		return nil
	}
	switch len(text) {
	case len("2006-01-02T15:04"):
		text += ":00Z"
	case len("2006-01-02T15:04:05"):
		text += "Z"
	}
	moment, err := web.ParseTime(text)
	if err != nil {
		q.Refuse(name, err.Error())
	}
	return &moment
}

// eventLines returns events with the names of what they are about and of their actors.
func (c *Console) eventLines(ctx context.Context, list []history.Event) ([]eventLine, error) {
	called, err := history.Names(ctx, c.History, list)
	if err != nil {
		return nil, err
	}
	lines := make([]eventLine, len(list))
	for i := range list {
		e := &list[i]
		lines[i] = eventLine{
			Event: e, Name: cmp.Or(called[e.StreamID], called[history.AuthorsIntegration(e.Data)]),
			ActorName: called[names.Integration(e.Metadata.Actor)], Summary: events.Summary(e.Type, e.Data), Link: linkTo(e),
		}
	}
	return lines, nil
}

// linkTo returns the path of the page about the aggregate of an event; "" if it has none.
func linkTo(e *history.Event) string {
	page := map[string]string{
		events.PostStream: "/comments/", events.NovelStream: "/novels/", events.AuthorStream: "/comments?author=",
		events.IntegrationStream: "/partners/",
	}[e.StreamType]
	switch {
	case page != "":
		return page + e.StreamID.String()
	case e.StreamType == events.ProjectionStream:
		return "/system"
	default:
		return ""
	}
}

// eventBody is what the page of an event shows.
type eventBody struct {
	eventLine

	Data, Personal string // indented
	KeyID          string // of the API key that was used; "" for none
	Erased         bool   // the personal data
	Correlation    string
	Proof          proof
}

// proof is what the server found when it checked the proof of inclusion of an event.
type proof struct {
	Holds    bool
	Waits    bool   // no checkpoint covers the event yet
	Trouble  string // why it does not hold; "" otherwise
	LogIndex int64
	Entries  int64 // of the checkpoint
	Origin   string
	Keys     []string // that have signed the checkpoint
	Text     string   // the file
}

// event shows one event.
func (c *Console) event(ctx context.Context, v *visit) (*view, int, error) {
	index, err := logIndex(v)
	if err != nil {
		return nil, 0, err
	}
	found, err := history.At(ctx, c.History, index)
	if err != nil {
		return nil, 0, err
	}
	lines, err := c.eventLines(ctx, []history.Event{found})
	if err != nil {
		return nil, 0, err
	}
	body := &eventBody{
		eventLine: lines[0], Data: indented(found.Data), Personal: indented(found.Personal),
		Erased:      found.PersonalDigest != nil,
		Correlation: cmp.Or(found.Metadata.Correlation, found.Metadata.RequestID),
	}
	if found.Metadata.KeyID != uuid.Nil {
		body.KeyID = found.Metadata.KeyID.String()
	}
	if body.Proof, err = c.checkProof(ctx, &found); err != nil {
		return nil, 0, err
	}
	return &view{template: "event", title: fmt.Sprintf("Event %d", index), body: body}, 1, nil
}

// logIndex reads the log index of an address.
func logIndex(v *visit) (int64, error) {
	index, err := strconv.ParseInt(mux.Vars(v.Request)["logIndex"], 10, 64)
	if err != nil || index < 0 {
		return 0, problem.ErrNotFound
	}
	return index, nil
}

// indented returns stored JSON in lines.
func indented(stored []byte) string {
	text := jsontext.Value(bytes.Clone(stored))
	if len(stored) == 0 || text.Indent(jsontext.WithIndent("  ")) != nil {
		return string(stored)
	}
	return string(text)
}

// checkProof makes the proof of an event and checks it: against the keys of the served checkpoint, and against the
// event that the page shows. It fails if the database does not answer, which says nothing about the proof.
func (c *Console) checkProof(ctx context.Context, e *history.Event) (proof, error) {
	p := proof{LogIndex: e.LogIndex}
	store := ledger.NewStore(c.History)
	text, err := store.Proof(ctx, e.LogIndex)
	var served ledger.Checkpoint
	if err == nil {
		served, err = store.Served(ctx)
	}
	if err == nil {
		p.Keys, err = store.SignersOf(ctx, served)
	}
	var proven ledger.Proven
	if err == nil {
		proven, err = ledger.CheckProof(text, p.Keys)
	}
	if err == nil {
		err = hasEntry(&proven, e)
	}
	switch at := proven.Checkpoint; {
	case err == nil:
		p.Holds, p.Entries, p.Origin, p.Text = true, at.Tree.N, at.Origin, string(text)
	case errors.Is(err, ledger.ErrNotFound):
		p.Waits, err = true, nil
	case !c.Kit.Problem(err).Code.Retryable():
		p.Trouble, err = err.Error(), nil
	}
	return p, err //nolint:wrapcheck // it names what was read
}

// hasEntry fails unless a proof is about exactly this event.
func hasEntry(proven *ledger.Proven, e *history.Event) error {
	raw, err := ledger.AppendEntry(nil, &e.Row)
	if err != nil {
		return err //nolint:wrapcheck // it says what is wrong with the event
	}
	entry, err := ledger.ParseEntry(raw)
	if err == nil && (proven.LogIndex != e.LogIndex || !reflect.DeepEqual(entry, proven.Entry)) {
		err = fmt.Errorf("%w: its entry is another event", ledger.ErrProof)
	}
	return err //nolint:wrapcheck // see above
}

// proofFile sends the proof of an event as a file.
func (c *Console) proofFile(ctx context.Context, v *visit) (*view, error) {
	index, err := logIndex(v)
	if err != nil {
		return nil, err
	}
	text, err := ledger.NewStore(c.History).Proof(ctx, index)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, problem.ErrNotFound.WithDetail("No checkpoint covers this log index yet.")
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // it names what was read
	}
	v.writer.Header().Set("Content-Type", "text/plain; charset=utf-8")
	v.writer.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="event-%d.tlog-proof"`, index))
	_, _ = v.writer.Write(text) //nolint:gosec // not HTML; an error means that the browser disconnected
	return nil, nil
}

// readsBody is what the access log shows, newest first.
type readsBody struct {
	Reads []history.AccessEntry
	Next  string // path; "" on the last page
}

// reads shows who read the history.
func (c *Console) reads(ctx context.Context, v *visit) (*view, int, error) {
	before := int64(math.MaxInt64)
	if given := v.query.Index("before"); given != nil {
		before = *given
	}
	if err := v.query.Err(); err != nil {
		return nil, 0, err
	}
	list, err := (&history.AccessLog{DB: c.History}).List(ctx, before, pageSize+1)
	if err != nil {
		return nil, 0, err
	}
	body := &readsBody{Reads: list[:min(len(list), pageSize)]}
	if len(list) > pageSize {
		body.Next = nextPage(v, "before", strconv.FormatInt(list[pageSize-1].ID, 10))
	}
	return &view{template: "reads", title: "Reads of the history", body: body}, len(body.Reads), nil
}
