package readapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/docs"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/problem"
	"novelgate/internal/testdb"
	"novelgate/internal/title"
	"novelgate/internal/web"
	"novelgate/projections"
	"novelgate/readapi"
	"novelgate/readapi/pages"
)

const public = "https://host.example/books"

// world is a database with the routes for readers, wired as in the service.
type world struct {
	*database.Pools

	handler  http.Handler
	now      time.Time // of the clock of the routes, which stands still: a page fetched again shows the same times
	platform uuid.UUID // an integration named "Fan Site"
	versions map[uuid.UUID]int
	queued   []events.Recorded // not appended yet
	log      []events.Recorded // all appended events, as read from the log
	applied  int               // number of events that the asynchronous projections have applied
	serial   int
	followed map[string]*httptest.ResponseRecorder // answers to links, since the last change
}

func newWorld(t testing.TB) *world {
	t.Helper()
	pools, err := database.Open(t.Context(), testdb.New(t))
	if err != nil {
		t.Fatalf("open pools: %v", err)
	}
	t.Cleanup(pools.Close)
	w := &world{
		Pools: pools, now: time.Now().Truncate(time.Microsecond), platform: uuid.New(), versions: map[uuid.UUID]int{},
		followed: map[string]*httptest.ResponseRecorder{},
	}
	address, err := url.Parse(public)
	if err != nil {
		t.Fatal(err)
	}
	w.handler = routes(slog.New(slog.DiscardHandler), func() time.Time { return w.now }, &readapi.Reader{DB: pools.Read},
		web.NewAddresses(address))
	w.append(t, events.IntegrationStream, w.platform,
		events.IntegrationRegistered{Name: "Fan Site", RegisteredAt: time.Now()})
	return w
}

func routes(
	logger *slog.Logger, now func() time.Time, reader *readapi.Reader, addresses web.Addresses, site ...pages.Site,
) http.Handler {
	router := mux.NewRouter().SkipClean(true)
	kit := &web.Kit{
		Logger: logger, Timeout: time.Minute, Now: now, Problems: []func(error) *problem.Error{readapi.Problem},
	}
	reader.Addresses = addresses
	(&readapi.API{Kit: kit, Reader: reader}).Register(router)
	p := &pages.Pages{Kit: kit, Reader: reader}
	if len(site) > 0 {
		p.Site = site[0]
	}
	p.Register(router)
	return kit.Handler(router, p.Missing())
}

// site returns the routes of w with what an operator has decided.
func (w *world) site(t testing.TB, decided pages.Site) *world {
	t.Helper()
	base := testdb.Must(url.Parse(public))(t)
	return &world{handler: routes(slog.New(slog.DiscardHandler), time.Now, &readapi.Reader{DB: w.Read},
		web.NewAddresses(base), decided)}
}

// append queues one event. flush appends the queued events, and every request and statement of a test flushes. project
// updates the asynchronous projections.
func (w *world) append(t testing.TB, streamType string, stream uuid.UUID, event events.Event) {
	t.Helper()
	w.versions[stream]++
	key, source := fmt.Sprintf("key-%d", w.serial), "test"
	if _, ok := event.(events.PostImported); ok {
		source = events.PostsSource(w.platform)
	}
	w.serial++
	w.queued = append(w.queued, events.Recorded{
		StreamType: streamType, StreamID: stream, StreamVersion: w.versions[stream], ID: key, Source: source, Event: event,
		Metadata: events.Metadata{Actor: "test"},
	})
}

func (w *world) flush(t testing.TB) {
	t.Helper()
	const batch = 1000
	for queued := range slices.Chunk(w.queued, batch) {
		after := events.Position(0)
		if len(w.log) > 0 {
			after = w.log[len(w.log)-1].End()
		}
		if err := projections.Append(context.Background(), w.General, queued...); err != nil {
			t.Fatalf("append: %v", err)
		}
		stored, err := eventlog.ReadFrom(context.Background(), w.General, after, batch)
		if err != nil || len(stored) != len(queued) {
			t.Fatalf("read back %d events: %d, %v", len(queued), len(stored), err)
		}
		w.log = append(w.log, stored...)
	}
	w.queued = nil
}

// project applies all appended events to the asynchronous projections.
func (w *world) project(t testing.TB) {
	t.Helper()
	w.flush(t)
	tx := testdb.Begin(t, w.General)
	defer tx.Rollback(context.Background()) //nolint:errcheck // after a commit there is nothing to roll back
	for _, projection := range projections.All() {
		if err := projection.Apply(context.Background(), tx, w.log[w.applied:]); err != nil {
			t.Fatalf("apply %s: %v", projection.Name(), err)
		}
	}
	if err := tx.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.applied = len(w.log)
	clear(w.followed)
}

// novel creates a partner's novel with its thread, unless change says otherwise.
func (w *world) novel(t testing.TB, spelling string, change func(*events.NovelCreated)) uuid.UUID {
	t.Helper()
	id := events.NovelID(title.Fold(spelling))
	e := events.NovelCreated{
		Title: spelling, Slug: title.Slug(spelling), Author: "Unknown", OwnerID: &w.platform, State: "approved",
	}
	if e.Slug == "" {
		e.Slug = "novel-" + id.String()[:8]
	}
	if change != nil {
		change(&e)
	}
	w.append(t, events.NovelStream, id, e)
	w.append(t, events.ThreadStream, events.ThreadID(id), events.ThreadOpened{NovelID: id})
	return id
}

// comment imports a comment and returns its identifier. Zero members are filled in.
func (w *world) comment(t testing.TB, novel uuid.UUID, e events.PostImported) uuid.UUID {
	t.Helper()
	id := events.PostID(w.platform, fmt.Sprintf("key-%d", w.serial))
	e.IntegrationID, e.NovelID, e.ThreadID = w.platform, novel, events.ThreadID(novel)
	if e.Comment == nil {
		e.Comment = &events.Comment{
			ExternalUUID: "secret-uuid", Username: "Marlow", Content: fmt.Sprintf("Comment %d.", w.serial),
		}
	}
	if e.WrittenAt.IsZero() {
		e.WrittenAt = start.Add(time.Duration(w.serial) * time.Minute)
	}
	w.append(t, events.PostStream, id, e)
	return id
}

var start = time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)

func reply(parent uuid.UUID) events.PostImported { return events.PostImported{ParentPostID: &parent} }

func (w *world) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	w.flush(t)
	clear(w.followed)
	testdb.Exec(t, w.General, sql, args...)
}

// get sends a request; pairs are headers.
func (w *world) get(t testing.TB, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	w.flush(t)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, r)
	checkDescribed(t, r, recorder)
	return recorder
}

var description = sync.OnceValues(func() (routers.Router, error) {
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI)
	if err != nil {
		return nil, fmt.Errorf("parse docs/openapi.yaml: %w", err)
	}
	doc.Servers = nil
	return gorillamux.NewRouter(doc)
})

// checkDescribed checks an answer, and a successful request, against docs/openapi.yaml.
func checkDescribed(t testing.TB, r *http.Request, got *httptest.ResponseRecorder) {
	t.Helper()
	router := testdb.Must(description())(t)
	route, parameters, err := router.FindRoute(r)
	if err != nil {
		if got.Code != http.StatusNotFound && !strings.HasPrefix(r.URL.Path, "/assets/") {
			t.Errorf("%s is not described: %v", r.URL, err)
		}
		return
	}
	request := &openapi3filter.RequestValidationInput{
		Request: r, Route: route, PathParams: parameters,
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SkipSettingDefaults: true,
		},
	}
	if got.Code < http.StatusBadRequest {
		if err := openapi3filter.ValidateRequest(context.Background(), request); err != nil {
			t.Errorf("GET %s succeeded although it is described as invalid: %v", r.URL, err)
		}
	}
	if err := openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: request, Status: got.Code, Header: got.Header(),
		Body:    io.NopCloser(bytes.NewReader(got.Body.Bytes())),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}); err != nil {
		t.Errorf("the answer to GET %s is not as described: %v\n%d %.2000s", r.URL, err, got.Code, got.Body)
	}
}

// Answers of the JSON routes, with the members that tests use.
type (
	novelAnswer struct {
		NovelID       uuid.UUID `json:"novelId"`
		Slug          string    `json:"slug"`
		URL           string    `json:"url"`
		Novel         string    `json:"novel"`
		Author        string    `json:"author"`
		Synopsis      string    `json:"synopsis"`
		Genres        []string  `json:"genres"`
		ReadingStatus string    `json:"readingStatus"`
		State         string    `json:"state"`
		Platform      *string   `json:"platform"`
	}
	listAnswer struct {
		Items      []novelAnswer `json:"items"`
		NextCursor *string       `json:"nextCursor"`
	}
	authorAnswer struct {
		MemberID    string `json:"memberId"`
		DisplayName string `json:"displayName"`
		Platform    string `json:"platform"`
	}
	postAnswer struct {
		PostID        uuid.UUID     `json:"postId"`
		URL           string        `json:"url"`
		ParentPostID  *uuid.UUID    `json:"parentPostId"`
		Depth         int           `json:"depth"`
		Content       *string       `json:"content"`
		Hidden        bool          `json:"hidden"`
		Erased        bool          `json:"erased"`
		Author        *authorAnswer `json:"author"`
		Replies       []postAnswer  `json:"replies"`
		RepliesCursor *string       `json:"repliesCursor"`
	}
	discussionAnswer struct {
		Items          []postAnswer `json:"items"`
		PreviousCursor *string      `json:"previousCursor"`
		NextCursor     *string      `json:"nextCursor"`
	}
)

// read gets an address, expects 200, and decodes the body.
func read[T any](t testing.TB, w *world, path string) T {
	t.Helper()
	got := w.get(t, path)
	if got.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, got.Code, got.Body)
	}
	var body T
	if err := json.Unmarshal(got.Body.Bytes(), &body); err != nil {
		t.Fatalf("GET %s: %v\n%s", path, err, got.Body)
	}
	return body
}

// wantProblem expects an error with a status and a code.
func wantProblem(t testing.TB, w *world, path string, status int, code string) {
	t.Helper()
	got := w.get(t, path)
	var body struct {
		Code string `json:"code"`
	}
	if err := json.Unmarshal(got.Body.Bytes(), &body); err != nil || got.Code != status || body.Code != code {
		t.Errorf("GET %s: %d %s, %v; want %d %s", path, got.Code, got.Body, err, status, code)
	}
}

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }
