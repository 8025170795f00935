package history_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/auth"
	"novelgate/internal/database"
	"novelgate/internal/problem"
	"novelgate/internal/testdb"
	"novelgate/internal/web"
	"novelgate/readapi/history"
)

// open opens a new database as the service does.
func open(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return openURL(t, testdb.New(t))
}

func openURL(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool := testdb.Must(database.OpenHistory(context.Background(), url))(t)
	t.Cleanup(pool.Close)
	return pool
}

// row is an event as a test stores it.
type row struct {
	streamType string
	stream     uuid.UUID
	version    int
	id, source string
	kind       string
	data       string
	personal   *string
	metadata   events.Metadata
	recordedAt time.Time
}

var integrationID = uuid.MustParse("6d3ff1ad-4b62-4b0e-9c7e-2f6a9c1d2e01")

// post returns the first event of a comment with a key.
func post(id string) row {
	return row{
		streamType: "post", stream: events.PostID(integrationID, id), version: 1,
		id: id, source: events.PostsSource(integrationID), kind: "post.imported.v1",
		data: `{"content":"none"}`, metadata: events.Metadata{Actor: "integration:x"},
		recordedAt: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC),
	}
}

const insertSQL = `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id,
    integration_id, event_source, event_type, data, personal, actor, batch_id, request_id, correlation, recorded_at)
SELECT coalesce(max(log_index) + 1, 0), $1, $2::uuid, $3::integer, $4, $5::uuid, $6, $7, $8::text::json,
    $9::text::json, $10, $11::uuid, nullif($12, ''), nullif($13, ''), $14::timestamptz FROM events`

// insert appends events, as one batch, in a transaction.
func insert(ctx context.Context, tx pgx.Tx, rows []row) error {
	var batch pgx.Batch
	eventlog.Lock(&batch)
	id := uuid.New()
	for _, r := range rows {
		integration, path := events.SplitSource(r.source)
		batch.Queue(insertSQL, r.streamType, r.stream, r.version, r.id, integration, path, r.kind, r.data, r.personal,
			r.metadata.Actor, id, r.metadata.RequestID, r.metadata.Correlation, r.recordedAt)
	}
	return tx.SendBatch(ctx, &batch).Close()
}

// store appends events in a transaction of their own.
func store(t testing.TB, pool *pgxpool.Pool, rows ...row) {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), pool,
		func(tx pgx.Tx) error { return insert(t.Context(), tx, rows) }); err != nil {
		t.Fatal(err)
	}
}

// pageOf reads the page after a cursor in text form. It examines at most maxScanned events; 0: the service's limit.
func pageOf(
	ctx context.Context, pool *pgxpool.Pool, filter history.Filter, cursor string, limit, maxScanned int,
) (history.Page, error) {
	after, err := history.ParseCursor(cursor)
	if err != nil {
		return history.Page{}, err
	}
	reader, err := history.NewReader(ctx, pool, filter)
	if err != nil {
		return history.Page{}, err
	}
	if maxScanned > 0 {
		reader.SetMaxScanned(maxScanned)
	}
	end, err := reader.End(ctx)
	if err != nil {
		return history.Page{}, err
	}
	return reader.Page(ctx, after, end, limit)
}

// newReader returns a reader without a filter.
func newReader(t testing.TB, pool *pgxpool.Pool) *history.Reader {
	t.Helper()
	return testdb.Must(history.NewReader(t.Context(), pool, history.Filter{}))(t)
}

// all reads all events that match a filter, in pages.
func all(
	ctx context.Context, pool *pgxpool.Pool, filter history.Filter, limit, maxScanned int,
) ([]history.Event, error) {
	var found []history.Event
	for cursor := ""; ; {
		page, err := pageOf(ctx, pool, filter, cursor, limit, maxScanned)
		if err != nil {
			return nil, err
		}
		found = append(found, page.Events...)
		if !page.More {
			return found, nil
		}
		cursor = page.Next.String()
	}
}

// idsOf returns the ids of events.
func idsOf(list []history.Event) []string {
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	return ids
}

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }

// archive is the history API on its own database, served over HTTP, with a key of every kind.
type archive struct {
	*auth.Keys
	isRevoked             atomic.Bool // the key of every staff user
	url                   string
	api                   *history.API
	pool                  *pgxpool.Pool
	staff                 *staff.Staff
	wake                  *eventlog.Wake
	draining              atomic.Bool
	ada, otto, partner    string
	expired, revoked      string
	ottosKeyID, partnerID uuid.UUID
}

// AuthenticateStaffUser replaces that of Keys.
func (a *archive) AuthenticateStaffUser(ctx context.Context, key string) (*auth.StaffUser, error) {
	if a.isRevoked.Load() {
		return nil, auth.ErrUnknown
	}
	return a.Keys.AuthenticateStaffUser(ctx, key)
}

// newArchive serves; change may set the API and the server up differently.
func newArchive(t *testing.T, change func(a *archive, server *http.Server)) *archive {
	t.Helper()
	pool := open(t)
	a := &archive{
		Keys: auth.NewKeys(pool, time.Now), pool: pool, wake: eventlog.NewWake(),
		staff: &staff.Staff{Pool: pool, Actor: "staff:setup", Now: time.Now},
	}
	kit := &web.Kit{
		Logger: slog.New(slog.DiscardHandler), Now: time.Now, Timeout: time.Minute,
		Problems: []func(error) *problem.Error{history.Problem},
	}
	a.api = &history.API{
		DB: pool, Wake: a.wake, Kit: kit, Staff: auth.NewStaff(kit, a),
		Draining: a.draining.Load,
	}
	server := httptest.NewUnstartedServer(nil)
	if change != nil {
		change(a, server.Config)
	}
	router := mux.NewRouter().SkipClean(true)
	a.api.Register(router)
	server.Config.Handler = a.api.Handler(router, nil)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	t.Cleanup(server.Close)
	a.url = server.URL
	a.people(t)
	return a
}

func (a *archive) people(t *testing.T) {
	t.Helper()
	issue := func(role, name string, lifetime time.Duration) (staff.UserKey, string) {
		key, secret, err := a.staff.IssueUserKey(context.Background(), role, name, lifetime)
		if err != nil {
			t.Fatal(err)
		}
		return key, secret.Reveal()
	}
	_, a.ada = issue(principal.Staff, "ada", 0)
	var otto, rex staff.UserKey
	otto, a.otto = issue(principal.Auditor, "otto", 0)
	a.ottosKeyID = otto.ID
	_, a.expired = issue(principal.Auditor, "eve", time.Nanosecond)
	rex, a.revoked = issue(principal.Auditor, "rex", 0)
	testdb.Must(a.staff.RevokeUserKey(context.Background(), rex.ID, "gone"))(t)
	made := testdb.Must(a.staff.CreateIntegration(context.Background(), "Fan Site", principal.Change{}))(t)
	a.partnerID = made.ID
	_, secret, err := a.staff.IssueKey(context.Background(), made.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	a.partner = secret.Reveal()
}

// publish appends one event and signals it.
func (a *archive) publish(t *testing.T, title string) staff.Novel {
	t.Helper()
	n := testdb.Must(a.staff.PublishNovel(context.Background(), title, novel.Fields{}, ""))(t)
	a.wake.Signal()
	return n
}

// answer is the answer to a request.
type answer struct {
	status int
	header http.Header
	body   map[string]any
	text   string
}

func (a answer) str(name string) string { text, _ := a.body[name].(string); return text }

func (a answer) ids(t *testing.T) []string {
	t.Helper()
	items, ok := a.body["items"].([]any)
	if !ok {
		t.Fatalf("no items: %s", a.text)
	}
	ids := make([]string, len(items))
	for i := range items {
		event, _ := items[i].(map[string]any)
		ids[i], _ = event["cursor"].(string)
	}
	return ids
}

// connection is an answer that is being read.
type connection struct {
	status int
	header http.Header
	body   *bufio.Reader
}

// open sends a GET request; accept is left out when it is "".
func (a *archive) open(ctx context.Context, t *testing.T, key, path, accept string) *connection {
	t.Helper()
	r := testdb.Must(http.NewRequestWithContext(ctx, http.MethodGet, a.url+path, http.NoBody))(t)
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() }) //nolint:errcheck // it has been read
	return &connection{response.StatusCode, response.Header, bufio.NewReader(response.Body)}
}

// get sends a GET request and reads the answer.
func (a *archive) get(t *testing.T, key, path string) answer {
	t.Helper()
	c := a.open(t.Context(), t, key, path, "")
	text := testdb.Must(io.ReadAll(c.body))(t)
	got := answer{status: c.status, header: c.header, text: string(text)}
	if err := json.Unmarshal(text, &got.body); err != nil {
		t.Fatalf("%s: %v: %s", path, err, text)
	}
	return got
}

const ndjson = "application/x-ndjson"

// lines reads n lines of a stream that are not empty; n = 0 reads all.
func (c *connection) lines(n int) (cursors []string, blank int, err error) {
	for n == 0 || len(cursors) < n {
		line, err := c.body.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return cursors, blank, nil
		}
		if err != nil {
			return cursors, blank, err
		}
		if len(line) == 1 {
			blank++
			continue
		}
		var event struct {
			Cursor string `json:"cursor"`
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return cursors, blank, err
		}
		cursors = append(cursors, event.Cursor)
	}
	return cursors, blank, nil
}

// entries returns the access log, oldest first.
func (a *archive) entries(t *testing.T) []history.AccessEntry {
	t.Helper()
	list := testdb.Must((&history.AccessLog{DB: a.pool}).List(t.Context(), 1<<62, 1000))(t)
	slices.Reverse(list)
	return list
}
