package webhooks_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5/pgxpool"
	reference "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"novelgate/commands/webhooks"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/auth"
	"novelgate/internal/testdb"
	"novelgate/internal/web"
	"novelgate/projections"
	"novelgate/readapi/changes"
	"novelgate/readapi/history"
)

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }

// loopback is where the endpoints of tests are.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

var acme, other = uuid.UUID{1, 6: 0x70, 8: 0x80}, uuid.UUID{2, 6: 0x70, 8: 0x80}

// feed is the change feed, as the service wires it.
type feed struct{ *changes.Feed }

func (f feed) Read(
	ctx context.Context, of uuid.UUID, from events.Position, limit int,
) (list []webhooks.Message, err error) {
	page, err := f.Page(ctx, changes.Query{Integration: of, After: history.Cursor{Position: from}, Limit: limit})
	for _, c := range page.Changes {
		body, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		list = append(list, webhooks.Message{ID: c.ID, Type: c.Type, Body: body, End: eventlog.Mark(c.Place)})
	}
	return list, err
}

// fixture is a database with two partners, and the routes of webhooks.
type fixture struct {
	pool    *pgxpool.Pool
	api     *webhooks.API
	handler http.Handler
	wake    *eventlog.Wake
	version int          // of acme's novel
	ahead   atomic.Int64 // see now
}

// authenticate accepts keys that are the identifier of an integration.
func authenticate(_ context.Context, key string) (*auth.Integration, error) {
	return &auth.Integration{IntegrationID: uuid.MustParse(key), Enabled: true}, nil
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	pool := testdb.Pool(t, testdb.New(t))
	d := &fixture{pool: pool, wake: eventlog.NewWake(), version: 1}
	for name, id := range map[string]uuid.UUID{"acme": acme, "other": other} {
		d.append(t, events.Recorded{
			StreamType: events.IntegrationStream, StreamID: id, StreamVersion: 1, ID: name, Source: "staff",
			Event: events.IntegrationRegistered{Name: name, RegisteredAt: time.Unix(0, 0)},
		})
	}
	d.append(t, events.Recorded{
		StreamType: events.NovelStream, StreamID: events.NovelID("n"), StreamVersion: 1, ID: "n",
		Source: events.NovelsSource(acme),
		Event:  events.NovelCreated{Title: "N", Slug: "n", OwnerID: &acme, State: "pending"},
	})
	runner, err := projections.NewRunner(projections.Config{
		Pool: pool, Wake: d.wake, Logger: slog.New(slog.DiscardHandler),
		Projections: []projections.Projection{projections.Changes{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, func(ctx context.Context) { _ = runner.Run(ctx) })
	kit := &web.Kit{Logger: slog.New(slog.DiscardHandler), Now: time.Now, Timeout: time.Minute}
	d.api = &webhooks.API{
		Partners: auth.NewPartners(kit, authenticate), Store: &webhooks.Store{Pool: pool},
		Sender: webhooks.NewSender(loopback, time.Now),
	}
	router := mux.NewRouter()
	d.api.Register(router)
	d.handler = kit.Handler(router, nil)
	return d
}

// run runs work until the test ends, or stop is called.
func run(t testing.TB, work func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { work(ctx) })
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}

func (d *fixture) append(t testing.TB, recorded ...events.Recorded) {
	t.Helper()
	if err := projections.Append(context.Background(), d.pool, recorded...); err != nil {
		t.Fatal(err)
	}
	d.wake.Signal()
}

// change returns the next change of acme, with a consecutive number as its reason.
func (d *fixture) change() (change events.Recorded, reason string) {
	d.version++
	reason = fmt.Sprint(d.version)
	return events.Recorded{
		StreamType: events.NovelStream, StreamID: events.NovelID("n"), StreamVersion: d.version, ID: reason,
		Source: "staff", Event: []events.Event{
			events.NovelApproved{Reason: reason}, events.NovelRejected{Reason: reason},
		}[d.version%2],
	}, reason
}

// happen makes n changes of acme.
func (d *fixture) happen(t testing.TB, n int) (reasons []string) {
	t.Helper()
	for range n {
		change, reason := d.change()
		d.append(t, change)
		reasons = append(reasons, reason)
	}
	return reasons
}

// worker starts a worker.
func (d *fixture) worker(t testing.TB) (stop func()) {
	t.Helper()
	return d.workerOn(t, feed{&changes.Feed{DB: d.pool}})
}

// workerOn starts a worker that reads from a feed.
func (d *fixture) workerOn(t testing.TB, from webhooks.Feed) (stop func()) {
	t.Helper()
	w := &webhooks.Worker{
		Pool: d.pool, Feed: from, Sender: d.api.Sender, Now: d.now, Logger: slog.New(slog.DiscardHandler),
		Metrics: webhooks.NewMetrics(),
	}
	return run(t, w.Run)
}

// now is the clock of workers.
func (d *fixture) now() time.Time { return time.Now().Add(time.Duration(d.ahead.Load())) }

// pass lets time pass for workers.
func (d *fixture) pass(length time.Duration) { d.ahead.Add(int64(length)) }

// pausedFeed is a feed whose first read that finds changes pauses. A receive from step waits until the pause begins, a
// second one ends it.
type pausedFeed struct {
	webhooks.Feed
	once sync.Once
	step chan struct{}
}

func (f *pausedFeed) Read(
	ctx context.Context, of uuid.UUID, from events.Position, limit int,
) (list []webhooks.Message, err error) {
	if list, err = f.Feed.Read(ctx, of, from, limit); len(list) > 0 {
		f.once.Do(func() {
			f.step <- struct{}{}
			f.step <- struct{}{}
		})
	}
	return list, err
}

// send sends a request of a partner and decodes the answer.
func (d *fixture) send(t testing.TB, of uuid.UUID, method, path, body string, into any) (status int) {
	t.Helper()
	r := httptest.NewRequestWithContext(context.Background(), method, "/api/integrations/webhooks"+path,
		strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+of.String())
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	if into != nil {
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			t.Fatalf("%s %s: %d %s: %v", method, path, w.Code, w.Body, err)
		}
	}
	return w.Code
}

type secretive struct {
	webhooks.Webhook
	Secret string `json:"secret"`
}

// hook creates a webhook of acme.
func (d *fixture) hook(t testing.TB, url, more string) (made secretive) {
	t.Helper()
	if status := d.send(t, acme, http.MethodPost, "", `{"url":"`+url+`"`+more+`}`, &made); status != http.StatusCreated {
		t.Fatalf("status %d", status)
	}
	return made
}

func (d *fixture) show(t testing.TB, id uuid.UUID) (w webhooks.Webhook) {
	t.Helper()
	if status := d.send(t, acme, http.MethodGet, "/"+id.String(), "", &w); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	return w
}

// patch changes a webhook of acme.
func (d *fixture) patch(t testing.TB, id uuid.UUID, body string) {
	t.Helper()
	if status := d.send(t, acme, http.MethodPatch, "/"+id.String(), body, nil); status != http.StatusOK {
		t.Fatalf("%s: status %d", body, status)
	}
}

func (d *fixture) execute(t testing.TB, sql string, args ...any) {
	t.Helper()
	testdb.Exec(t, d.pool, sql, args...)
}

// endpoint is a partner's endpoint. It verifies messages with the reference implementation.
type endpoint struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	secrets []string
	ended   []string
	answer  func(w http.ResponseWriter, attempt int) // attempt counts the attempts of a message from 1; nil: 204
	ids     map[string]int
	taken   []string // reasons of the messages answered with 2xx
}

func newEndpoint(t *testing.T, answer func(w http.ResponseWriter, attempt int)) *endpoint {
	t.Helper()
	e := &endpoint{t: t, answer: answer, ids: map[string]int{}}
	e.Server = httptest.NewServer(e)
	e.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(e.Close)
	return e
}

// trust sets secrets that must all verify every message.
func (e *endpoint) trust(secrets ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.secrets = secrets
}

// distrust sets secrets that must verify no message.
func (e *endpoint) distrust(secrets ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = secrets
}

func (e *endpoint) behave(answer func(w http.ResponseWriter, attempt int)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = answer
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	e.mu.Lock()
	for _, secret := range slices.Concat(e.secrets, e.ended) {
		verifier, err := reference.NewWebhook(secret)
		if err == nil {
			err = verifier.Verify(body, r.Header)
		}
		if want := slices.Contains(e.secrets, secret); want != (err == nil) {
			e.t.Errorf("verified by %s: %t, want %t: %v\n%v\n%s", secret, err == nil, want, err, r.Header, body)
		}
	}
	var message struct {
		ID, Type string
		Data     struct{ Reason string }
	}
	if err := json.Unmarshal(body, &message, json.MatchCaseInsensitiveNames(true)); err != nil ||
		message.ID != r.Header.Get("Webhook-Id") {
		e.t.Errorf("%v: %s", err, body)
	}
	e.ids[message.ID]++
	answer, attempt := e.answer, e.ids[message.ID]
	e.mu.Unlock()
	to := &statusWriter{w, http.StatusNoContent}
	if answer == nil {
		answer = func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusNoContent) }
	}
	answer(to, attempt)
	if to.status == http.StatusNoContent {
		e.mu.Lock()
		e.taken = append(e.taken, message.Data.Reason)
		e.mu.Unlock()
	}
}

// took returns the reasons of the accepted messages, in order.
func (e *endpoint) took() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.taken)
}

// attempts returns the number of requests.
func (e *endpoint) attempts() (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, attempts := range e.ids {
		n += attempts
	}
	return n
}

// wantTaken waits until an endpoint has accepted these messages, in order and each once.
func (e *endpoint) wantTaken(t *testing.T, want []string) {
	t.Helper()
	testdb.Eventually(t, "the endpoint has taken all", func() bool { return len(e.took()) >= len(want) })
	if diff := cmp.Diff(want, e.took()); diff != "" {
		t.Fatalf("(-want +taken)\n%s", diff)
	}
}

// wantAttempts waits for want requests.
func (e *endpoint) wantAttempts(t *testing.T, want int) {
	t.Helper()
	testdb.Eventually(t, fmt.Sprint(want, " requests"), func() bool { return e.attempts() == want })
}
