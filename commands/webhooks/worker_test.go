package webhooks_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/readapi/changes"
)

// TestChangesAreSentInOrder: several workers send every change since the creation of the webhook once, in order.
func TestChangesAreSentInOrder(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.happen(t, 3)
	e, filtered, elsewhere := newEndpoint(t, nil), newEndpoint(t, nil), newEndpoint(t, nil)
	e.trust(d.hook(t, e.URL, "").Secret)
	filtered.trust(d.hook(t, filtered.URL, `,"types":["novel.rejected"]`).Secret)
	if status := d.send(t, other, http.MethodPost, "", `{"url":"`+elsewhere.URL+`"}`, nil); status != http.StatusCreated {
		t.Fatalf("status %d", status)
	}
	for range 3 {
		d.worker(t)
	}
	want := d.happen(t, 60)
	var rejected []string
	for i := 0; i < len(want); i += 2 { // see change
		rejected = append(rejected, want[i])
	}
	e.wantTaken(t, want)
	filtered.wantTaken(t, rejected)
	if n := elsewhere.attempts(); n > 0 {
		t.Errorf("%d requests to the other partner", n)
	}
}

// TestAFailingEndpoint gets nothing during the pauses, which double up to an hour, and is disabled after five days. Its
// partner sees that, and the last attempts. Enabled again, it gets everything, in order.
func TestAFailingEndpoint(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	elsewhere := newEndpoint(t, nil)
	e := newEndpoint(t, func(w http.ResponseWriter, attempt int) {
		switch attempt % 3 {
		case 0:
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(http.StatusTemporaryRedirect)
		case 1:
			w.WriteHeader(http.StatusBadGateway)
		default:
			w.WriteHeader(http.StatusTeapot) // for the record of the test
			panic(http.ErrAbortHandler)
		}
	})
	e.Config.SetKeepAlivesEnabled(false) // on a connection in use, a request without an answer is repeated at once
	w := d.hook(t, e.URL, "")
	e.trust(w.Secret)
	want := d.happen(t, 30)
	d.worker(t)
	failures := 0
	wantPause := func(pause time.Duration) {
		t.Helper()
		failures++
		testdb.Eventually(t, fmt.Sprint("failure ", failures), func() bool { return d.show(t, w.ID).Failures == failures })
		shown := d.show(t, w.ID)
		last := shown.Attempts[0]
		// The pause begins with the end of the attempt.
		got := shown.NextAttemptAt.Sub(last.At) - time.Duration(last.Milliseconds)*time.Millisecond
		if got < pause || got > pause+time.Second {
			t.Errorf("failure %d: a pause of %v, want %v", failures, got, pause)
		}
		d.pass(pause)
	}
	for pause := time.Second; pause < time.Hour; pause *= 2 {
		wantPause(pause)
	}
	for range 10 {
		wantPause(time.Hour)
	}
	shown := d.show(t, w.ID)
	if n := e.attempts(); n > failures+1 || len(e.took()) > 0 || !shown.Enabled || shown.Waiting != 30 {
		t.Errorf("%d requests for %d failures, %+v", n, failures, shown)
	}
	if len(shown.Attempts) != 20 || shown.Attempts[0].At.Before(shown.Attempts[19].At) {
		t.Errorf("%+v", shown.Attempts)
	}
	var errors []string
	for _, a := range shown.Attempts[:3] {
		errors = append(errors, *a.Error)
		if a.Delivered || a.ID == "" || a.Type != "novel.approved" {
			t.Errorf("%+v", a)
		}
	}
	slices.Sort(errors)
	wanted := []string{"Bad Gateway", "redirects are not followed", "the connection failed"}
	if !slices.Equal(errors, wanted) {
		t.Errorf("%v", errors)
	}
	first := *shown.FailingSince
	d.pass(first.Add(5*24*time.Hour - 2*time.Minute).Sub(d.now()))
	wantPause(time.Hour)
	testdb.Eventually(t, "it is disabled", func() bool { return !d.show(t, w.ID).Enabled })
	shown = d.show(t, w.ID)
	if *shown.Disabled != "failing" || shown.DisabledAt.Sub(first) < 5*24*time.Hour || !shown.FailingSince.Equal(first) {
		t.Errorf("disabled %s at %v after failures since %v, the first of them at %v", *shown.Disabled, shown.DisabledAt,
			shown.FailingSince, first)
	}
	if list, err := d.api.Store.List(t.Context(), uuid.Nil); err != nil || *list[0].Disabled != "failing" {
		t.Errorf("staff see %+v, %v", list, err)
	}
	if n := elsewhere.attempts(); n > 0 {
		t.Errorf("%d redirects were followed", n)
	}
	e.behave(nil)
	d.patch(t, w.ID, `{"enabled":true}`)
	e.wantTaken(t, want)
	testdb.Eventually(t, "nothing is left", func() bool {
		shown = d.show(t, w.ID)
		return shown.Waiting == 0 && shown.Failures == 0 && shown.FailingSince == nil && shown.NextAttemptAt == nil
	})
}

// TestGone: an endpoint that answers 410 is disabled at once.
func TestGone(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e := newEndpoint(t, func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusGone) })
	w := d.hook(t, e.URL, "")
	want := d.happen(t, 2)
	d.worker(t)
	testdb.Eventually(t, "it is disabled", func() bool { return !d.show(t, w.ID).Enabled })
	d.pass(48 * time.Hour)
	if shown := d.show(t, w.ID); *shown.Disabled != "gone" || shown.DisabledAt == nil || e.attempts() != 1 {
		t.Errorf("%d requests, %+v", e.attempts(), shown)
	}
	e.behave(nil)
	d.patch(t, w.ID, `{"enabled":true}`)
	e.wantTaken(t, want)
}

// TestRetryAfter: an endpoint gets nothing during the requested pause, which lasts a day at most.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"3600": time.Hour, "864000": 24 * time.Hour, "-9": time.Second, "soon": time.Second,
		"2147483648": 24 * time.Hour, "99999999999999999999": 24 * time.Hour,
		"Fri, 31 Dec 9999 23:59:59 GMT":                             24 * time.Hour,
		time.Now().Add(2 * time.Hour).UTC().Format(http.TimeFormat): 2 * time.Hour,
	} {
		t.Run(strings.ReplaceAll(value, " ", ""), func(t *testing.T) {
			t.Parallel()
			d := newFixture(t)
			e := newEndpoint(t, func(w http.ResponseWriter, _ int) {
				w.Header().Set("Retry-After", value)
				w.WriteHeader(http.StatusTooManyRequests)
			})
			w := d.hook(t, e.URL, "")
			reasons := d.happen(t, 2)
			d.worker(t)
			testdb.Eventually(t, "it is asked once", func() bool { return d.show(t, w.ID).Failures > 0 })
			shown := d.show(t, w.ID)
			if pause := shown.NextAttemptAt.Sub(shown.Attempts[0].At); pause < want-time.Minute || pause > want+time.Minute {
				t.Errorf("a pause of %v, want %v", pause, want)
			}
			e.behave(nil)
			d.pass(want)
			e.wantTaken(t, reasons)
		})
	}
}

// TestSlowEndpointsDelayNoOther: many endpoints that do not answer leave a place for one that does.
func TestSlowEndpointsDelayNoOther(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	hold := make(chan struct{})
	slow := newEndpoint(t, func(http.ResponseWriter, int) { <-hold })
	t.Cleanup(func() { close(hold) })
	quick := newEndpoint(t, nil)
	d.hook(t, slow.URL, "")
	d.execute(t, `INSERT INTO webhooks (webhook_id, integration_id, url, secret, position)
SELECT gen_random_uuid(), integration_id, $1 || '/' || n, secret, position FROM webhooks, generate_series(2, 60) AS n`, slow.URL)
	d.execute(t, `INSERT INTO webhooks (webhook_id, integration_id, url, secret, position)
SELECT gen_random_uuid(), integration_id, $1, secret, position FROM webhooks LIMIT 1`, quick.URL)
	d.worker(t)
	want := d.happen(t, 1)
	slow.wantAttempts(t, 60)
	quick.wantTaken(t, append(want, d.happen(t, 21)...))
	if took := slow.took(); len(took) > 0 {
		t.Errorf("the slow ones have taken %v", took)
	}
}

// newHeldEndpoint returns an endpoint that answers the first request after release is closed.
func newHeldEndpoint(t *testing.T) (e *endpoint, release chan struct{}) {
	t.Helper()
	release = make(chan struct{})
	return newEndpoint(t, func(_ http.ResponseWriter, attempt int) {
		if attempt == 1 {
			<-release
		}
	}), release
}

// TestOneAttemptAtATime: another worker sends nothing while the first one waits for an answer, because the lease is
// longer than an attempt.
func TestOneAttemptAtATime(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e, release := newHeldEndpoint(t)
	w := d.hook(t, e.URL, "")
	d.worker(t)
	d.worker(t)
	want := d.happen(t, 2)
	e.wantAttempts(t, 1)
	if !testdb.Value[bool](t, d.pool, `SELECT leased_until > now() + interval '15 seconds' FROM webhooks`) {
		t.Error("the lease ends before the attempt must")
	}
	close(release)
	e.wantTaken(t, want)
	testdb.Eventually(t, "two outcomes are saved", func() bool { return len(d.show(t, w.ID).Attempts) == 2 })
}

// TestACrashHandsOver: another worker continues when the lease of a crashed one has ended, not before.
func TestACrashHandsOver(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e := newEndpoint(t, nil)
	d.hook(t, e.URL, "")
	d.execute(t, `UPDATE webhooks SET holder = gen_random_uuid(), leased_until = now() + interval '2 seconds'`)
	ends := testdb.Value[time.Time](t, d.pool, `SELECT leased_until FROM webhooks`)
	d.worker(t)
	want := d.happen(t, 1)
	e.wantTaken(t, want)
	if !testdb.Value[bool](t, d.pool, `SELECT now() >= $1::timestamptz`, ends) {
		t.Error("the change was sent while another worker had the lease")
	}
}

// TestRotationDuringAnAttempt: a change of the settings ends the lease. The change is sent again, under the new
// settings, and one outcome is saved.
func TestRotationDuringAnAttempt(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e, release := newHeldEndpoint(t)
	w := d.hook(t, e.URL, "")
	e.trust(w.Secret)
	d.worker(t)
	want := d.happen(t, 1)
	e.wantAttempts(t, 1)
	d.execute(t, `UPDATE webhooks SET next_attempt_at = 'infinity'`) // until the endpoint has the new secret
	var rotated secretive
	if status := d.send(t, acme, http.MethodPost, "/"+w.ID.String()+"/rotate", `{"overlapSeconds":0}`,
		&rotated); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	e.trust(rotated.Secret)
	d.execute(t, `UPDATE webhooks SET next_attempt_at = '-infinity'`)
	e.wantTaken(t, want) // the first request is held
	testdb.Eventually(t, "one outcome is saved", func() bool {
		shown := d.show(t, w.ID)
		return shown.Waiting == 0 && len(shown.Attempts) == 1 && shown.Attempts[0].Delivered
	})
	close(release)
}

// loseFrom sets the database back before a log index, as a failover to a lagging standby does.
func (d *fixture) loseFrom(t *testing.T, logIndex int64) {
	t.Helper()
	tx := testdb.Begin(t, d.pool)
	testdb.Lose(t, tx, fmt.Sprint("log_index = ", logIndex))
	testdb.Exec(t, tx, `DELETE FROM changes WHERE log_index >= $1`, logIndex)
	testdb.Exec(t, tx, `UPDATE projections SET position = least(position, $1)`, logIndex)
	testdb.Exec(t, tx, `UPDATE webhooks SET position = least(position, $1)`, logIndex)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestAFailoverDuringAVisit: a worker that has read a change before a failover saves nothing in a database that lost
// this change, or the save of an earlier one. Every change that the database has is sent.
func TestAFailoverDuringAVisit(t *testing.T) {
	t.Parallel()
	const all, rejected = "", `,"types":["novel.rejected"]`
	for name, test := range map[string]struct {
		types     string
		losesSave bool // otherwise it loses the change
		want      []string
	}{
		"the change is lost, and was sent":     {all, false, []string{"4", "new"}},
		"the change is lost, and was unwanted": {rejected, false, []string{"new"}},
		"a save is lost, and one was sent":     {all, true, []string{"4", "3", "4"}},
		"a save is lost, and one was unwanted": {rejected, true, []string{"3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newFixture(t)
			e := newEndpoint(t, nil)
			d.happen(t, 2) // 2 is approved, 3 rejected
			w := d.hook(t, e.URL, test.types)
			d.happen(t, 1) // 4 is approved
			paused := &pausedFeed{Feed: feed{&changes.Feed{DB: d.pool}}, step: make(chan struct{})}
			d.workerOn(t, paused)
			<-paused.step
			if test.losesSave {
				d.execute(t, `UPDATE webhooks SET position = position - 1`)
			} else {
				d.loseFrom(t, testdb.Value[int64](t, d.pool, `SELECT position FROM webhooks`))
				d.append(t, events.Recorded{
					StreamType: events.NovelStream, StreamID: events.NovelID("n"), StreamVersion: 4, ID: "new", Source: "staff",
					Event: events.NovelRejected{Reason: "new"},
				})
			}
			<-paused.step
			e.wantTaken(t, test.want)
			testdb.Eventually(t, "all is saved", func() bool { return d.show(t, w.ID).Waiting == 0 })
		})
	}
}

// TestADisabledIntegration gets nothing while it is disabled, and all changes afterwards.
func TestADisabledIntegration(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e, elsewhere := newEndpoint(t, nil), newEndpoint(t, nil)
	d.hook(t, e.URL, "")
	if status := d.send(t, other, http.MethodPost, "", `{"url":"`+elsewhere.URL+`"}`, nil); status != http.StatusCreated {
		t.Fatalf("status %d", status)
	}
	d.execute(t, `UPDATE integrations SET enabled = false WHERE integration_id = $1`, acme)
	d.worker(t)
	want := d.happen(t, 2)
	theirs := events.NovelID("theirs")
	for version, event := range []events.Event{
		events.NovelCreated{Title: "Theirs", Slug: "theirs", OwnerID: &other, State: "pending"}, events.NovelApproved{},
	} {
		d.append(t, events.Recorded{
			StreamType: events.NovelStream, StreamID: theirs, StreamVersion: version + 1, ID: fmt.Sprint("theirs ", version),
			Source: events.NovelsSource(other), Event: event,
		})
	}
	elsewhere.wantAttempts(t, 1) // after those of the other one
	if n := e.attempts(); n > 0 {
		t.Errorf("%d requests for a disabled integration", n)
	}
	d.execute(t, `UPDATE integrations SET enabled = true`)
	e.wantTaken(t, want)
}

// TestTheEndOfTheService: a visit ends at once, and its lease with it.
func TestTheEndOfTheService(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e, release := newHeldEndpoint(t)
	t.Cleanup(func() { close(release) })
	d.hook(t, e.URL, "")
	stop := d.worker(t)
	d.happen(t, 1)
	e.wantAttempts(t, 1)
	stop()
	if !testdb.Value[bool](t, d.pool, `SELECT holder IS NULL AND attempts = '[]' FROM webhooks`) {
		t.Error("the lease goes on, or an outcome is saved")
	}
}
