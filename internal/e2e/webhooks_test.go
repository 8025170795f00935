package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"novelgate/client"
	"novelgate/internal/testdb"
)

// nowhere begins addresses to which nothing is sent.
const nowhere = "https://nowhere.invalid/"

// NewWebhook creates a webhook of a partner.
func (p *Partner) NewWebhook(t testing.TB, url string) (made client.Webhook) {
	t.Helper()
	body := Fields{"url": url}.JSON(t)
	p.Service.Send(t, Request{
		Method: http.MethodPost, Path: "/api/integrations/webhooks", Bearer: p.APIKey, Body: body,
		ContentType: "application/json",
	}).WantJSON(t, http.StatusCreated, &made)
	return made
}

// Webhook returns a webhook of a partner as it is now.
func (p *Partner) Webhook(t testing.TB, id string) (w client.Webhook) {
	t.Helper()
	p.Inquire(t, "/api/integrations/webhooks/"+id).WantJSON(t, http.StatusOK, &w)
	return w
}

// badEndpoint takes a message at the third attempt at the latest; it answers late, redirects, refuses or resets before.
type badEndpoint struct {
	*httptest.Server
	t *testing.T

	late time.Duration // of an answer that comes late

	mu         sync.Mutex
	secret     string
	attempts   map[string]int
	took       map[string]string // message by id
	order      []string          // ids, in the order in which it first took them
	duplicates int               // messages that came after it had taken them
	within     int               // requests to the address within
}

func newBadEndpoint(t *testing.T, late time.Duration) *badEndpoint {
	t.Helper()
	e := &badEndpoint{t: t, late: late, attempts: map[string]int{}, took: map[string]string{}}
	e.Server = httptest.NewServer(e)
	e.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(e.Close)
	return e
}

func (e *badEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	e.mu.Lock()
	verifier, err := standardwebhooks.NewWebhook(e.secret)
	if err == nil {
		err = verifier.Verify(body, r.Header)
	}
	if err != nil {
		e.t.Errorf("not verified: %v\n%s", err, body)
	}
	id := r.Header.Get("Webhook-Id")
	e.attempts[id]++
	bad := e.attempts[id] < 3 && rand.IntN(6) == 0
	kind := rand.IntN(4)
	if _, again := e.took[id]; again {
		e.duplicates++
	}
	if !bad {
		if _, again := e.took[id]; !again {
			e.order = append(e.order, id)
		}
		e.took[id] = string(body)
	}
	e.mu.Unlock()
	switch {
	case !bad:
		w.WriteHeader(http.StatusNoContent)
	case kind == 0:
		w.WriteHeader(http.StatusServiceUnavailable)
	case kind == 1:
		http.Redirect(w, r, "http://10.0.0.1/", http.StatusFound)
	case kind == 2:
		time.Sleep(e.late)
		w.WriteHeader(http.StatusInternalServerError)
	default:
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			e.t.Error(err)
			return
		}
		_ = connection.(*net.TCPConn).SetLinger(0)
		_ = connection.Close() // reset
	}
}

// TestWebhooksReachABadEndpoint while a replica is killed: every change arrives, verified and in order, and nothing connects to
// private addresses or tells a partner of another one's changes. NOVELGATE_TEST_WEBHOOK_CHANGES sets their number.
func TestWebhooksReachABadEndpoint(t *testing.T) {
	t.Parallel()
	changes := scaled(t, "NOVELGATE_TEST_WEBHOOK_CHANGES", 60)
	databaseURL := testdb.New(t)
	flags := []string{"--webhook-allow-cidr", "127.0.0.1/32"}
	s, second := Start(t, databaseURL, flags...), Start(t, databaseURL, flags...)
	ada, p, q := s.NewStaff(t), s.NewPartner(t), s.NewPartner(t)
	e := newBadEndpoint(t, min(300*time.Millisecond, 60*time.Second/time.Duration(changes)))
	// What is not in the allowed net.
	listener := testdb.Must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.2:0"))(t)
	within := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.within++
	}))
	within.Listener = listener
	within.Start()
	t.Cleanup(within.Close)

	hook := p.NewWebhook(t, e.URL)
	e.mu.Lock()
	e.secret = hook.Secret
	e.mu.Unlock()
	p.Service.Send(t, Request{
		Method: http.MethodPost, Path: "/api/integrations/webhooks", Bearer: p.APIKey, ContentType: "application/json",
		Body: Fields{"url": "http://" + listener.Addr().String()}.JSON(t),
	}).WantInvalid(t, "url")
	private := p.NewWebhook(t, "http://127.0.0.1/private")
	// As if the operator had allowed another net then.
	execute(t, databaseURL, fmt.Sprintf(`UPDATE webhooks SET url = 'http://%s' WHERE webhook_id = '%s'`, listener.Addr(),
		private.WebhookID))
	unresolved := p.NewWebhook(t, "https://localhost:1")
	began := time.Now()
	var sending sync.WaitGroup
	const novels = 10
	for k := range novels {
		novel := p.Upsert(t, Key(), Fields{"novel": Unique("Hooked")}).WantNovel(t, 201)
		other := q.Upsert(t, Key(), Fields{"novel": Unique("Not hooked")}).WantNovel(t, 201)
		sending.Go(func() {
			for n := range changes / novels {
				verb := []string{"reject", "approve"}[n%2]
				about := []string{novel.NovelID}
				if n%20 < 2 {
					about = append(about, other.NovelID)
				}
				for _, id := range about {
					ada.Post(t, "/api/admin/novels/"+id+"/"+verb, Key(), Fields{"reason": fmt.Sprint(n)}).
						WantJSON(t, 200, &struct{}{})
				}
				if k == 0 && n == changes/novels/2 {
					second.kill()
					second.wait(t)
				}
			}
		})
	}
	sending.Wait()
	made := time.Since(began)
	testdb.Eventually(t, "the feed has all", func() bool {
		return value[int](t, databaseURL, `SELECT count(*) FROM changes WHERE integration_id = $1`, p.IntegrationID) == changes
	})
	told := p.feed(t)
	for got := -1; got < changes; { // each while longer than a test waits
		was := got
		testdb.Eventually(t, fmt.Sprint("the endpoint has more than ", was), func() bool {
			e.mu.Lock()
			defer e.mu.Unlock()
			got = len(e.took)
			return got > was
		})
	}
	e.mu.Lock()
	attempts := 0
	for _, n := range e.attempts {
		attempts += n
	}
	t.Logf("%d changes made in %v, delivered after %v by %d attempts, %d of them duplicates; most memory %s", changes,
		made, time.Since(began), attempts, e.duplicates, s.mostMemory(t))
	if len(e.took) != changes {
		t.Errorf("the endpoint was told of %d changes, want %d", len(e.took), changes)
	}
	for i, c := range told {
		if i < len(e.order) && e.order[i] != c.ID {
			t.Errorf("change %d: sent %s, in the feed %s", i, e.order[i], c.ID)
		}
		var got client.Change
		if err := json.Unmarshal([]byte(e.took[c.ID]), &got); err != nil || got.Type != c.Type || got.Cursor != c.Cursor ||
			string(got.Data) != string(c.Data) {
			t.Errorf("%s: sent %+v, in the feed %+v, %v", c.ID, got, c, err)
		}
	}
	e.mu.Unlock()
	testdb.Eventually(t, "nothing is left", func() bool {
		w := p.Webhook(t, hook.WebhookID)
		return w.Waiting == 0 && w.FailingSince == nil
	})
	for _, id := range []string{private.WebhookID, unresolved.WebhookID} {
		testdb.Eventually(t, "the webhook fails", func() bool { return p.Webhook(t, id).FailingSince != nil })
	}
	if tried := p.Webhook(t, private.WebhookID).Attempts[0]; tried.Status != nil ||
		*tried.Error != "the address must be public, and used by https" {
		t.Errorf("%+v", tried)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.within > 0 {
		t.Errorf("%d requests to a private address", e.within)
	}

	// Staff see it and switch it off.
	list := s.CLI(t, "webhook", "list", "--integration", p.IntegrationID)
	if !strings.Contains(list.Stdout, e.URL) {
		t.Errorf("%s", list.Stdout)
	}
	s.CLI(t, "webhook", "disable", hook.WebhookID, "--reason", "abuse")
	if w := p.Webhook(t, hook.WebhookID); w.Enabled || *w.DisabledReason != "abuse" {
		t.Errorf("%+v", w)
	}
}
