package webhooks_test

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/commands/webhooks"
	"novelgate/internal/testdb"
)

// TestNoRequestWithin: unless the operator allows it, nothing connects to private addresses, whatever their form and
// however they are reached.
func TestNoRequestWithin(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	var accepted atomic.Int32
	listener := testdb.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close() //nolint:errcheck // it accepts no connection
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			c.Close() //nolint:errcheck // no request is expected
		}
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	made := d.hook(t, "https://127.0.0.1:"+port, "") // of when the operator allowed that
	for name, sender := range map[string]*webhooks.Sender{
		"public only": webhooks.NewSender(nil, time.Now),
		"another net": webhooks.NewSender([]netip.Prefix{netip.MustParsePrefix("127.1.0.0/16")}, time.Now),
	} {
		d.api.Sender = sender
		for _, host := range []string{
			"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "10.1.2.3", "169.254.169.254", "192.168.1.1",
			"[fd00::1]", "[fe80::1]", "[64:ff9b::7f00:1]", "100.64.0.1", "2130706433", "127.1",
		} {
			for _, scheme := range []string{"https", "http"} {
				d.execute(t, `UPDATE webhooks SET url = $1`, scheme+"://"+host+":"+port)
				var o webhooks.Outcome
				d.send(t, acme, http.MethodPost, "/"+made.ID.String()+"/test", "", &o)
				if o.Delivered || o.Status != nil || strings.Contains(*o.Error, "127.") {
					t.Errorf("%s, %s://%s: %+v %s", name, scheme, host, o, *o.Error)
				}
			}
		}
	}
	if n := accepted.Load(); n > 0 {
		t.Errorf("%d connections", n)
	}
	d.api.Sender = webhooks.NewSender([]netip.Prefix{netip.MustParsePrefix("127.1.0.0/16")}, time.Now)
	if status := d.send(t, acme, http.MethodPatch, "/"+made.ID.String(), `{"url":"http://a.example"}`, nil); status !=
		http.StatusOK {
		t.Errorf("http within an allowed net: status %d", status)
	}
	d.api.Sender = webhooks.NewSender(nil, time.Now)
	for _, url := range []string{
		"https://localhost", "https://localhost.:8443", "https://a.localhost", "https://hooks", "https://hooks.internal",
		"https://127.1", "https://2130706433", "https://10.1.2.3", "https://[::1]", "https://a.example:0",
		"https://a.example:65536", "https://a.example:99999999999999999999", "http://a.example",
		"ftp://a.example", "https://", "https://u:p@a.example", "https://a.example/#f", "a.example", "",
		" https://a.example", "https://a.example/hook ", "https://a.example/a b", "https://a.example/?a=b c",
		"https://a.example/?a=\u00fc", "https://a.example/" + strings.Repeat("x", 2000),
		"https://a.example/" + words(1900), // more bytes than an index takes
	} {
		var refused struct {
			Field string `json:"field"`
		}
		if status := d.send(t, acme, http.MethodPost, "", fmt.Sprintf(`{"url":%q}`, url), &refused); status !=
			http.StatusBadRequest || refused.Field != "url" {
			t.Errorf("%.60q: status %d, field %q", url, status, refused.Field)
		}
	}
}

// words returns n different ideographs of three bytes each, which PostgreSQL does not compress.
func words(n int) string {
	text := make([]rune, n)
	for i := range text {
		text[i] = rune(0x4e00 + i*7919%20_000)
	}
	return string(text)
}

// TestAddressesThatAreRefused: private addresses are refused when a webhook is created or changed, and never sent to
// later, unless the operator allows them.
func TestAddressesThatAreRefused(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.api.Sender = webhooks.NewSender([]netip.Prefix{
		netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/16"),
	}, time.Now)
	made := d.hook(t, "https://hooks.example.com", "")
	for url, allowed := range map[string]bool{
		"https://10.0.0.1/": false, "https://[::1]/": false, "https://169.254.169.254/": false,
		"https://127.0.0.1:8443":     false,
		"https://[::ffff:10.0.0.1]/": false, "https://[fe80::1%25eth0]/": false, "https://0.0.0.0": false,
		"https://[64:ff9b::a00:1]": false, "http://10.0.0.1": false, "http://93.184.215.14": false, "https://10.1.2.3": true,
		"https://[::ffff:10.1.2.3]": true, "http://10.1.2.3": true, "http://[fd00::1]": true, "https://[fd01::1]": false,
		"https://93.184.215.14": true, "https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]": true,
		"https://localhost": false, "http://Localhost.": false, "https://a.localhost": false,
		"https://hooks.internal": true, "http://hooks": true, // perhaps in an allowed net
	} {
		for _, try := range []struct {
			method, path string
			status       int
		}{{http.MethodPatch, "/" + made.ID.String(), http.StatusOK}, {http.MethodPost, "", http.StatusCreated}} {
			var refused struct {
				Field  string `json:"field"`
				Detail string `json:"detail"`
			}
			status := d.send(t, acme, try.method, try.path, fmt.Sprintf(`{"url":%q}`, url), &refused)
			if !allowed && (status != http.StatusBadRequest || refused.Field != "url" ||
				!strings.Contains(refused.Detail, "must be a public address by https, or ")) || allowed && status != try.status {
				t.Errorf("%s %q: status %d, %+v", try.method, url, status, refused)
			}
			d.execute(t, `DELETE FROM webhooks WHERE webhook_id <> $1`, made.ID)
			d.execute(t, `UPDATE webhooks SET url = 'https://hooks.example.com'`)
		}
	}
}

// TestOneWebhookForAnAddress: an integration has only one webhook per address, created or changed.
func TestOneWebhookForAnAddress(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.hook(t, "https://a.example", "")
	second := d.hook(t, "https://b.example", "")
	body := `{"url":"https://a.example"}`
	if status := d.send(t, acme, http.MethodPost, "", body, nil); status != http.StatusConflict {
		t.Errorf("a second one: status %d", status)
	}
	if status := d.send(t, acme, http.MethodPatch, "/"+second.ID.String(), body, nil); status != http.StatusConflict {
		t.Errorf("a changed one: status %d", status)
	}
	if status := d.send(t, other, http.MethodPost, "", body, nil); status != http.StatusCreated {
		t.Errorf("of another partner: status %d", status)
	}
}

func TestTenWebhooks(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	for n := range 12 {
		want := http.StatusCreated
		if n >= 10 {
			want = http.StatusConflict
		}
		body := fmt.Sprintf(`{"url":"https://example.com/%d"}`, n)
		if status := d.send(t, acme, http.MethodPost, "", body, nil); status != want {
			t.Errorf("webhook %d: status %d, want %d", n, status, want)
		}
	}
}

// TestRotation: both secrets sign changes and tests until the overlap ends or a second rotation. Secrets are not shown
// again.
func TestRotation(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e := newEndpoint(t, nil)
	first := d.hook(t, e.URL, "")
	path := "/" + first.ID.String()
	d.worker(t)
	var taken []string
	wantSigned := func() {
		t.Helper()
		var o webhooks.Outcome
		if d.send(t, acme, http.MethodPost, path+"/test", "", &o); !o.Delivered || *o.Status != http.StatusNoContent {
			t.Errorf("%+v", o)
		}
		taken = append(append(taken, ""), d.happen(t, 1)...) // a test has no reason
		e.wantTaken(t, taken)
		// Otherwise the next change could be sent in the same visit, which keeps its secrets.
		testdb.Eventually(t, "the visit has ended", func() bool {
			return testdb.Value[bool](t, d.pool, `SELECT holder IS NULL FROM webhooks`)
		})
	}
	var second, third secretive
	d.send(t, acme, http.MethodPost, path+"/rotate", `{"overlapSeconds":3600}`, &second)
	if second.Secret == first.Secret || !strings.HasPrefix(second.Secret, "whsec_") {
		t.Errorf("secrets %s, %s", first.Secret, second.Secret)
	}
	e.trust(first.Secret, second.Secret)
	wantSigned()
	d.send(t, acme, http.MethodPost, path+"/rotate", `{"overlapSeconds":3600}`, &third)
	e.trust(second.Secret, third.Secret)
	e.distrust(first.Secret)
	wantSigned()
	d.execute(t, `UPDATE webhooks SET previous_until = now()`)
	e.trust(third.Secret)
	e.distrust(first.Secret, second.Secret)
	wantSigned()
	var shown secretive
	if d.send(t, acme, http.MethodGet, path, "", &shown); shown.Secret != "" || shown.URL != e.URL {
		t.Errorf("%+v", shown)
	}
}

// TestSince: a webhook continues with the first change since a time, under the same ids.
func TestSince(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e := newEndpoint(t, nil)
	w := d.hook(t, e.URL, "")
	d.worker(t)
	reasons := d.happen(t, 4)
	e.wantTaken(t, reasons)
	d.execute(t, `ALTER TABLE events DISABLE TRIGGER USER`)
	// The clock was set back: the second change is recorded at twelve, the third at ten.
	for n, hour := range []int{9, 12, 10} {
		d.execute(t, `UPDATE events SET recorded_at = $2 WHERE event_id = $1`, reasons[n],
			time.Date(2026, 1, 2, hour, 0, 0, 0, time.UTC))
	}
	want := reasons
	for since, again := range map[string]int{"2026-01-02T12:00:00Z": 1, "2000-01-01T00:00:00Z": 0} {
		d.patch(t, w.ID, fmt.Sprintf(`{"since":%q}`, since))
		want = slices.Concat(want, reasons[again:])
		e.wantTaken(t, want)
	}
	if e.mu.Lock(); len(e.ids) != len(reasons) {
		t.Errorf("%d ids", len(e.ids))
	}
	e.mu.Unlock()

	// What waits can be skipped, but nothing that the feed does not have yet.
	testdb.Eventually(t, "the last outcome is saved", func() bool { return d.show(t, w.ID).Waiting == 0 })
	d.patch(t, w.ID, `{"enabled":false}`)
	d.happen(t, 2)
	testdb.Eventually(t, "the changes are in the feed", func() bool { return d.show(t, w.ID).Waiting == 2 })
	at := testdb.Value[int64](t, d.pool, `SELECT position FROM projections`)
	d.execute(t, `UPDATE projections SET position = position - 1`)
	d.patch(t, w.ID, `{"since":"2100-01-01T00:00:00Z"}`)
	if position := testdb.Value[int64](t, d.pool, `SELECT position FROM webhooks`); position != at-1 {
		t.Errorf("position %d, want %d", position, at-1)
	}
}

// TestWhoMayDoWhat: a partner cannot use other partners' webhooks, and cannot undo decisions of staff.
func TestWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	w := d.hook(t, "https://a.example", "")
	for _, request := range [][2]string{
		{http.MethodGet, ""},
		{http.MethodPatch, ""},
		{http.MethodDelete, ""},
		{http.MethodPost, "/rotate"},
		{http.MethodPost, "/test"},
	} {
		for _, c := range []struct {
			of   uuid.UUID
			path string
		}{{other, w.ID.String()}, {acme, uuid.NewString()}} {
			if status := d.send(t, c.of, request[0], "/"+c.path+request[1], `{}`, nil); status != http.StatusNotFound {
				t.Errorf("%v: status %d", request, status)
			}
		}
	}
	store := d.api.Store
	if _, err := store.Switch(t.Context(), w.ID, false, "staff:ada", " "); err != webhooks.ErrReasonRequired { //nolint:errorlint // as it is
		t.Errorf("without a reason: %v", err)
	}
	off, err := store.Switch(t.Context(), w.ID, false, "staff:ada", "abuse")
	if err != nil || off.Enabled || *off.DisabledReason != "abuse" || *off.DisabledBy != "staff:ada" {
		t.Errorf("%+v, %v", off, err)
	}
	if status := d.send(t, acme, http.MethodPatch, "/"+w.ID.String(), `{"enabled":true}`, nil); status != http.StatusConflict {
		t.Errorf("on again by its partner: status %d", status)
	}
	if on, err := store.Switch(t.Context(), w.ID, true, "staff:ada", ""); err != nil || !on.Enabled {
		t.Errorf("%+v, %v", on, err)
	}
	for enabled, want := range map[string]bool{"false": false, "true": true} {
		d.send(t, acme, http.MethodPatch, "/"+w.ID.String(), `{"enabled":`+enabled+`}`, nil)
		if shown := d.show(t, w.ID); shown.Enabled != want {
			t.Errorf("enabled %s: %+v", enabled, shown)
		}
	}
	if status := d.send(t, acme, http.MethodDelete, "/"+w.ID.String(), "", nil); status != http.StatusNoContent {
		t.Errorf("delete: status %d", status)
	}
}
