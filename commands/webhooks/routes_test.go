package webhooks_test

import (
	"context"
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

	"novelgate/commands/staff"
	"novelgate/commands/webhooks"
	"novelgate/internal/problem"
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
		"http://a.example", "ftp://a.example", "https://", "https://u:p@a.example", "https://a.example/#f", "a.example", "",
		"https://a.example/" + strings.Repeat("x", 2000),
		"https://a.example/" + words(1900), // more bytes than an index takes
	} {
		if status := d.send(t, acme, http.MethodPost, "", fmt.Sprintf(`{"url":%q}`, url), nil); status != http.StatusBadRequest {
			t.Errorf("%q: status %d", url, status)
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
		"https://93.184.215.14": true, "https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]": true, "https://localhost": true,
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

// TestTenWebhooks: requests at the same time create no more webhooks than allowed.
func TestTenWebhooks(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	const requests, limit = 40, 10
	statuses := make(chan int, requests)
	for n := range requests {
		go func() {
			statuses <- d.send(t, acme, http.MethodPost, "", fmt.Sprintf(`{"url":"https://example.com/%d"}`, n), nil)
		}()
	}
	made := 0
	for range requests {
		switch status := <-statuses; status {
		case http.StatusCreated:
			made++
		case http.StatusConflict:
		default:
			t.Errorf("status %d", status)
		}
	}
	if made != limit {
		t.Errorf("%d webhooks, want %d", made, limit)
	}
}

// revoked are partners whose keys are revoked while the body of a request arrives.
type revoked struct{ partners }

func (revoked) StillAdmitted(context.Context, *http.Request) error {
	return problem.Unauthorized("The API key is not valid.")
}

// TestRevocationDuringABody: the key is revoked while the body arrives. Nothing is changed.
func TestRevocationDuringABody(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	made := d.hook(t, "https://a.example", "")
	d.api.Partners = revoked{}
	path := "/" + made.ID.String()
	if status := d.send(t, acme, http.MethodPatch, path, `{"enabled":false}`, nil); status != http.StatusUnauthorized {
		t.Errorf("status %d", status)
	}
	if !d.show(t, made.ID).Enabled {
		t.Error("the webhook is disabled")
	}
}

// TestRotation: both secrets sign until the overlap ends or a second rotation. Secrets are not shown again.
func TestRotation(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e := newEndpoint(t, nil)
	first := d.hook(t, e.URL, "")
	path := "/" + first.ID.String()
	var second secretive
	d.send(t, acme, http.MethodPost, path+"/rotate", `{"overlapSeconds":3600}`, &second)
	if second.Secret == first.Secret || !strings.HasPrefix(second.Secret, "whsec_") {
		t.Errorf("secrets %s, %s", first.Secret, second.Secret)
	}
	e.trust(first.Secret, second.Secret)
	var o webhooks.Outcome
	if d.send(t, acme, http.MethodPost, path+"/test", "", &o); !o.Delivered || *o.Status != http.StatusNoContent {
		t.Errorf("%+v", o)
	}
	var third secretive
	d.send(t, acme, http.MethodPost, path+"/rotate", `{"overlapSeconds":3600}`, &third)
	e.trust(second.Secret, third.Secret)
	e.distrust(first.Secret)
	if d.send(t, acme, http.MethodPost, path+"/test", "", &o); !o.Delivered {
		t.Errorf("%+v", o)
	}
	d.execute(t, `UPDATE webhooks SET previous_until = now()`)
	e.trust(third.Secret)
	e.distrust(first.Secret, second.Secret)
	if d.send(t, acme, http.MethodPost, path+"/test", "", &o); !o.Delivered {
		t.Errorf("%+v", o)
	}
	var shown secretive
	if d.send(t, acme, http.MethodGet, path, "", &shown); shown.Secret != "" || shown.URL != e.URL {
		t.Errorf("%+v", shown)
	}
}

// TestReplay sends everything since a time again, under the same ids.
func TestReplay(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e := newEndpoint(t, nil)
	w := d.hook(t, e.URL, "")
	d.worker(t, time.Hour)
	before := d.happen(t, 3)
	e.wantTaken(t, before)
	var since time.Time
	if err := d.pool.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&since); err != nil {
		t.Fatal(err)
	}
	after := d.happen(t, 3)
	e.wantTaken(t, append(before, after...))
	body := fmt.Sprintf(`{"since":%q}`, since.Format(time.RFC3339Nano))
	if status := d.send(t, acme, http.MethodPost, "/"+w.ID.String()+"/replay", body, nil); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	e.wantAttempts(t, 9)
	if e.mu.Lock(); len(e.ids) != 6 {
		t.Errorf("%d ids", len(e.ids))
	}
	e.mu.Unlock()
	if status := d.send(t, acme, http.MethodPost, "/"+w.ID.String()+"/replay", `{"since":"2000-01-01T00:00:00Z"}`,
		nil); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	e.wantAttempts(t, 15)
}

// TestReplayAfterTheClockWasSetBack sends everything since a time again, although a later change has an earlier time.
func TestReplayAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e := newEndpoint(t, nil)
	w := d.hook(t, e.URL, "")
	stop := d.worker(t, time.Hour)
	reasons := d.happen(t, 4)
	e.wantTaken(t, reasons)
	stop()
	d.execute(t, `ALTER TABLE events DISABLE TRIGGER USER`)
	var since time.Time
	for n, hour := range []int{9, 12, 10} { // the second change is recorded at twelve, the third at ten
		at := time.Date(2026, 1, 2, hour, 0, 0, 0, time.UTC)
		if n == 1 {
			since = at
		}
		d.execute(t, `UPDATE events SET recorded_at = $2 WHERE event_id = $1`, reasons[n], at)
	}
	body := fmt.Sprintf(`{"since":%q}`, since.Format(time.RFC3339))
	if status := d.send(t, acme, http.MethodPost, "/"+w.ID.String()+"/replay", body, nil); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	d.worker(t, time.Hour)
	testdb.Eventually(t, "three are sent again", func() bool { return len(e.took()) == len(reasons)+3 })
	if got := e.took()[len(reasons):]; !slices.Equal(got, reasons[1:]) {
		t.Errorf("took %v", got)
	}
}

// TestReplaySkipsNothing: changes that wait are sent, also those before the time of a replay.
func TestReplaySkipsNothing(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e := newEndpoint(t, nil)
	w := d.hook(t, e.URL, "")
	want := d.happen(t, 3)
	testdb.Eventually(t, "all changes are in the feed", func() bool { return d.show(t, w.ID).Waiting == 3 })
	if status := d.send(t, acme, http.MethodPost, "/"+w.ID.String()+"/replay", `{"since":"2100-01-01T00:00:00Z"}`,
		nil); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	if waiting := d.show(t, w.ID).Waiting; waiting != 3 {
		t.Errorf("%d changes wait", waiting)
	}
	d.worker(t, time.Hour)
	e.wantTaken(t, want)
}

// TestWhoMayDoWhat: a partner cannot use other partners' webhooks, has at most ten, and cannot undo decisions of staff.
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
		{http.MethodPost, "/replay"},
		{http.MethodGet, "/attempts"},
	} {
		for _, c := range []struct {
			of   uuid.UUID
			path string
		}{{other, w.ID.String()}, {acme, uuid.NewString()}} {
			status := d.send(t, c.of, request[0], "/"+c.path+request[1], `{"since":"2000-01-01T00:00:00Z"}`, nil)
			if status != http.StatusNotFound && status != http.StatusBadRequest { // since is no member of some
				t.Errorf("%v: status %d", request, status)
			}
		}
	}
	if status := d.send(t, acme, http.MethodPost, "", `{"url":"https://a.example"}`, nil); status != http.StatusConflict {
		t.Errorf("the same address: status %d", status)
	}
	for n := range 9 {
		d.hook(t, fmt.Sprintf("https://a.example/%d", n), "")
	}
	if status := d.send(t, acme, http.MethodPost, "", `{"url":"https://b.example"}`, nil); status != http.StatusConflict {
		t.Errorf("too many: status %d", status)
	}
	store := d.api.Store
	if _, err := store.Switch(t.Context(), w.ID, false, "staff:ada", " "); err != staff.ErrReasonRequired { //nolint:errorlint // as it is
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
