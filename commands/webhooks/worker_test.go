package webhooks_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/commands/webhooks"
	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// wantTaken waits until an endpoint has accepted these messages, in any order.
func (e *endpoint) wantTaken(t *testing.T, want []string) {
	t.Helper()
	want = slices.Sorted(slices.Values(want))
	testdb.Eventually(t, "the endpoint has taken all", func() bool {
		return slices.Equal(want, slices.Compact(slices.Sorted(slices.Values(e.took()))))
	})
}

// attempts is a page of attempts.
type attempts struct {
	Items []webhooks.Attempt `json:"items"`
}

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
		d.worker(t, time.Hour)
	}
	want := d.happen(t, 60)
	var rejected []string
	for i := 0; i < len(want); i += 2 { // see happen
		rejected = append(rejected, want[i])
	}
	e.wantTaken(t, want)
	filtered.wantTaken(t, rejected)
	if diff := cmp.Diff(want, e.took()); diff != "" {
		t.Errorf("(-log +endpoint)\n%s", diff)
	}
	if diff := cmp.Diff(rejected, filtered.took()); diff != "" {
		t.Errorf("filtered (-log +endpoint)\n%s", diff)
	}
	if n := elsewhere.attempts(); n > 0 {
		t.Errorf("%d requests to the other partner", n)
	}
}

// TestFailuresAreRetried: an endpoint gets every change until it answers 2xx, and no accepted message again. Attempts
// are listed.
func TestFailuresAreRetried(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	elsewhere := newEndpoint(t, nil)
	turn := 0
	e := newEndpoint(t, func(w http.ResponseWriter, attempt int) {
		if attempt > 2 {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		switch turn++; turn % 4 {
		case 0:
			w.WriteHeader(http.StatusInternalServerError)
		case 1:
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(http.StatusTemporaryRedirect)
		case 2:
			w.WriteHeader(http.StatusBadRequest)
		default:
			w.WriteHeader(http.StatusTeapot) // for the record of the test
			panic(http.ErrAbortHandler)
		}
	})
	w := d.hook(t, e.URL, "")
	e.trust(w.Secret)
	want := d.happen(t, 6)
	d.worker(t, time.Millisecond, time.Millisecond, time.Millisecond)
	e.wantTaken(t, want)
	var page attempts
	testdb.Eventually(t, "all are delivered", func() bool {
		d.send(t, acme, http.MethodGet, "/"+w.ID.String()+"/attempts?state=delivered", "", &page)
		return len(page.Items) == len(want)
	})
	for _, a := range page.Items {
		if a.Attempts != 3 || a.NextAt != nil || *a.Status != http.StatusNoContent || a.Error != nil {
			t.Errorf("%+v", a)
		}
	}
	if n := elsewhere.attempts(); n > 0 {
		t.Errorf("%d redirects were followed", n)
	}
	if n := e.attempts(); n != 3*len(want) {
		t.Errorf("%d attempts, want %d", n, 3*len(want))
	}
}

// TestAnEndpointThatIsAway: a failing endpoint gets few requests, and all changes when it works again.
func TestAnEndpointThatIsAway(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e := newEndpoint(t, func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusBadGateway) })
	w := d.hook(t, e.URL, "")
	e.trust(w.Secret)
	want := d.happen(t, 60)
	d.worker(t, time.Hour)
	testdb.Eventually(t, "it rests", func() bool {
		shown := d.show(t, w.ID)
		return shown.Retrying == 20 && shown.Waiting == 40
	})
	shown := d.show(t, w.ID)
	if n := e.attempts(); n != 20 || shown.FailingSince == nil || !shown.Enabled {
		t.Errorf("%d requests, %+v", n, shown)
	}
	e.behave(nil)
	d.execute(t, `UPDATE webhooks SET rest_until = now()`) // five minutes later
	e.wantTaken(t, want)
	testdb.Eventually(t, "nothing is left", func() bool {
		shown = d.show(t, w.ID)
		return shown.Waiting == 0 && shown.Retrying == 0 && shown.FailingSince == nil
	})
}

// TestAMessageIsGivenUp only while the endpoint accepts others.
func TestAMessageIsGivenUp(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e := newEndpoint(t, nil)
	w := d.hook(t, e.URL, "")
	stop := d.worker(t, time.Millisecond, time.Millisecond)
	before := d.happen(t, 1)
	e.wantTaken(t, before) // does not count: it is accepted before the first attempt at the other one
	looked := make(chan struct{})
	e.behave(func(w http.ResponseWriter, attempt int) {
		if attempt > 5 {
			<-looked // at 20 failures in a row the endpoint would rest
			return
		}
		w.WriteHeader(http.StatusUnprocessableEntity)
	})
	accept := sync.OnceFunc(func() { close(looked) })
	t.Cleanup(accept)
	broken := d.happen(t, 1)
	testdb.Eventually(t, "it is tried more often than there are waits", func() bool { return e.attempts() > 6 })
	if shown := d.show(t, w.ID); shown.Retrying != 1 {
		t.Errorf("%+v", shown)
	}
	accept()
	e.wantTaken(t, append(before, broken...))
	testdb.Eventually(t, "its outcome is saved", func() bool { return d.show(t, w.ID).Retrying == 0 })
	stop()

	poison := true
	e.behave(func(w http.ResponseWriter, attempt int) {
		if poison || attempt > 1 {
			poison = false
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	})
	d.happen(t, 10)
	// Otherwise the first one could be retried too often before another one is accepted.
	testdb.Eventually(t, "all changes are in the feed", func() bool { return d.show(t, w.ID).Waiting == 10 })
	d.worker(t, time.Millisecond, time.Millisecond)
	var page attempts
	testdb.Eventually(t, "the message is given up", func() bool {
		d.send(t, acme, http.MethodGet, "/"+w.ID.String()+"/attempts?state=failed", "", &page)
		return len(page.Items) == 1
	})
	if a := page.Items[0]; a.Attempts != 3 || *a.Error != "Unprocessable Entity" {
		t.Errorf("%+v", a)
	}
}

// TestEnabledTooEarly: a webhook is enabled while its endpoint still fails. No change is given up.
func TestEnabledTooEarly(t *testing.T) {
	t.Parallel()
	for name, enable := range map[string]func(d *fixture, id uuid.UUID) error{
		"by the partner": func(d *fixture, id uuid.UUID) error {
			if status := d.send(t, acme, http.MethodPatch, "/"+id.String(), `{"enabled":true}`, nil); status != http.StatusOK {
				return fmt.Errorf("status %d", status)
			}
			return nil
		},
		"by staff": func(d *fixture, id uuid.UUID) error {
			_, err := d.api.Store.Switch(t.Context(), id, true, "staff:ada", "")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newFixture(t)
			e := newEndpoint(t, func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusBadGateway) })
			w := d.hook(t, e.URL, "")
			want := d.happen(t, 1)
			d.worker(t, time.Millisecond, time.Millisecond)
			const waits = 2
			testdb.Eventually(t, "it rests", func() bool { return e.attempts() >= 20 })
			if err := enable(d, w.ID); err != nil {
				t.Error(err)
			}
			testdb.Eventually(t, "it is tried again and again", func() bool { return e.attempts() > 20+2*waits })
			e.behave(nil)
			e.wantTaken(t, want)
		})
	}
}

// TestReplayedMessageIsRetried as often as a new one.
func TestReplayedMessageIsRetried(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e := newEndpoint(t, func(w http.ResponseWriter, attempt int) {
		if attempt < 3 {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	w := d.hook(t, e.URL, "")
	want := d.happen(t, 1)
	d.worker(t, time.Millisecond, time.Millisecond)
	e.wantTaken(t, want)
	began := e.attempts()
	e.behave(func(w http.ResponseWriter, attempt int) {
		if attempt < began+3 {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	path := "/" + w.ID.String() + "/replay"
	if status := d.send(t, acme, http.MethodPost, path, `{"since":"2020-01-01T00:00:00Z"}`, nil); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	testdb.Eventually(t, "it is accepted again", func() bool { return len(e.took()) == 2 })
}

// TestBadMessagesDoNotHoldOthers: an endpoint that refuses some changes for good, and rests therefore, gets new ones.
func TestBadMessagesDoNotHoldOthers(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e := newEndpoint(t, func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusUnprocessableEntity) })
	w := d.hook(t, e.URL, "")
	e.trust(w.Secret)
	d.happen(t, 20)
	// Otherwise retries of the first ones make it rest before the last ones were sent.
	testdb.Eventually(t, "all changes are in the feed", func() bool { return d.show(t, w.ID).Waiting == 20 })
	d.worker(t, time.Millisecond)
	// An attempt under way would make it rest again.
	testdb.Eventually(t, "it rests", func() bool {
		return d.show(t, w.ID).Retrying == 20 &&
			testdb.Value[bool](t, d.pool, `SELECT rest_until > now() + interval '1 minute' AND holder IS NULL FROM webhooks`)
	})
	e.behave(func(w http.ResponseWriter, attempt int) {
		if attempt > 1 {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	})
	want := d.happen(t, 3)
	testdb.Eventually(t, "the new changes are in the feed", func() bool { return d.show(t, w.ID).Waiting == 3 })
	d.execute(t, `UPDATE webhooks SET rest_until = now()`) // five minutes later
	e.wantTaken(t, want)
}

// TestEndpointsAreDisabled by 410, and by five days of failures only; the partner enables them again.
func TestEndpointsAreDisabled(t *testing.T) {
	t.Parallel()
	for want, answer := range map[string]int{"gone": http.StatusGone, "failing": http.StatusServiceUnavailable} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			d := newFixture(t)
			e := newEndpoint(t, func(w http.ResponseWriter, _ int) { w.WriteHeader(answer) })
			w := d.hook(t, e.URL, "")
			reasons := d.happen(t, 2)
			d.worker(t, time.Hour)
			if want == "failing" {
				testdb.Eventually(t, "both fail", func() bool { return d.show(t, w.ID).Retrying == 2 })
				const retryAfter = `WITH w AS (UPDATE webhooks SET failing_since = now() - $1::interval)
    UPDATE webhook_attempts SET next_at = now()`
				d.execute(t, retryAfter, 119*time.Hour)
				testdb.Eventually(t, "both fail again", func() bool {
					return testdb.Value[int](t, d.pool, `SELECT count(*) FROM webhook_attempts WHERE attempts = 2`) == 2
				})
				if !d.show(t, w.ID).Enabled {
					t.Error("it is disabled before five days of failures")
				}
				d.execute(t, retryAfter, 121*time.Hour)
			}
			testdb.Eventually(t, "it is disabled", func() bool { return !d.show(t, w.ID).Enabled })
			if shown := d.show(t, w.ID); *shown.Disabled != want || shown.DisabledAt == nil {
				t.Errorf("%+v", shown)
			}
			e.behave(nil)
			if status := d.send(t, acme, http.MethodPatch, "/"+w.ID.String(), `{"enabled":true}`, nil); status != http.StatusOK {
				t.Errorf("status %d", status)
			}
			e.wantTaken(t, reasons)
		})
	}
}

// TestUnwantedRetries: a change whose type the partner no longer wants is not sent again.
func TestUnwantedRetries(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e := newEndpoint(t, func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusUnprocessableEntity) })
	w := d.hook(t, e.URL, "")
	d.happen(t, 2)
	d.worker(t, time.Hour)
	testdb.Eventually(t, "both are to be sent again", func() bool { return d.show(t, w.ID).Retrying == 2 })
	if status := d.send(t, acme, http.MethodPatch, "/"+w.ID.String(), `{"types":["novel.approved"]}`,
		nil); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	d.execute(t, `UPDATE webhook_attempts SET next_at = now()`)
	testdb.Eventually(t, "one is left", func() bool { return d.show(t, w.ID).Retrying == 1 })
	e.wantAttempts(t, 3)
	var page attempts
	d.send(t, acme, http.MethodGet, "/"+w.ID.String()+"/attempts", "", &page)
	if len(page.Items) != 1 || page.Items[0].Type != "novel.approved" {
		t.Errorf("%+v", page.Items)
	}
}

// TestTypesChangeDuringARead: a visit that has read a due retry, and whose webhook gets other types then, sends and
// deletes nothing. The next visit follows the new types.
func TestTypesChangeDuringARead(t *testing.T) {
	t.Parallel()
	const rejected, approved = `["novel.rejected"]`, `["novel.approved"]`
	for name, test := range map[string]struct {
		before, after string // types
		sent          int
	}{
		"no longer wanted": {approved, rejected, 0},
		"wanted again":     {rejected, approved, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newFixture(t)
			e := newEndpoint(t, func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusUnprocessableEntity) })
			w := d.hook(t, e.URL, "")
			stop := d.worker(t, time.Hour)
			d.happen(t, 1) // novel.approved
			testdb.Eventually(t, "it fails", func() bool { return d.show(t, w.ID).Retrying == 1 })
			stop()
			change := func(types string) {
				t.Helper()
				if status := d.send(t, acme, http.MethodPatch, "/"+w.ID.String(), `{"types":`+types+`}`,
					nil); status != http.StatusOK {
					t.Errorf("status %d", status)
				}
			}
			change(test.before)
			d.execute(t, `UPDATE webhook_attempts SET next_at = now()`)
			e.behave(nil)
			paused := d.pausedFeed(false)
			d.workerOn(t, paused, time.Hour)
			<-paused.step
			change(test.after)
			<-paused.step
			testdb.Eventually(t, "the next visit has ended", func() bool { return d.show(t, w.ID).Retrying == 0 })
			if n := len(e.took()); n != test.sent {
				t.Errorf("sent %d times, want %d", n, test.sent)
			}
		})
	}
}

// TestChangesWaitForTheSynchronousStandby: a change that only the primary has, because the wait of its commit was
// cancelled, is not sent before the standby has it.
func TestChangesWaitForTheSynchronousStandby(t *testing.T) {
	t.Parallel()
	url, standby := testdb.NewSynchronousPair(t)
	d := newFixtureOn(t, url)
	e := newEndpoint(t, nil)
	d.hook(t, e.URL, `,"types":["novel.rejected"]`)
	paused := d.pausedFeed(true)
	d.workerOn(t, paused, time.Hour)
	d.happen(t, 1) // an unwanted change, so that there is something to read
	<-paused.step  // the lease is on the standby
	standby.Cut(t)
	change, reason := d.change()
	standby.Unreplicated(t, func(conn *pgx.Conn) error { return projections.Append(t.Context(), conn, change) })
	d.wake.Signal()
	testdb.Eventually(t, "both changes are in the feed", func() bool {
		return testdb.Value[int](t, d.pool, `SELECT count(*) FROM changes`) == 2
	})
	<-paused.step
	testdb.Eventually(t, "the worker waits for the standby", func() bool {
		if e.attempts() > 0 {
			t.Fatal("a change is sent that a failover would lose")
		}
		return standby.Waiting(t) > 0
	})
	standby.Return(t)
	e.wantTaken(t, []string{reason})
}

// TestRetryAfter: an endpoint gets nothing during the requested pause.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e := newEndpoint(t, func(w http.ResponseWriter, _ int) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	w := d.hook(t, e.URL, "")
	want := d.happen(t, 5)
	d.worker(t, time.Millisecond)
	testdb.Eventually(t, "it is asked once", func() bool { return d.show(t, w.ID).Retrying == 1 })
	var next, rest float64
	if err := d.pool.QueryRow(t.Context(), `SELECT extract(epoch FROM a.next_at - now()), extract(epoch FROM w.rest_until - now())
FROM webhook_attempts AS a JOIN webhooks AS w USING (webhook_id)`).Scan(&next, &rest); err != nil {
		t.Fatal(err)
	}
	if next < 3500 || rest < 3500 || e.attempts() != 1 {
		t.Errorf("next in %f s, rest for %f s after %d requests", next, rest, e.attempts())
	}
	e.behave(nil)
	d.execute(t, `UPDATE webhooks SET rest_until = now()`)
	e.wantTaken(t, want[1:]) // the first one waits by itself
}

// TestSlowEndpointsDelayNoOther: there are more slow endpoints than slow visits of a worker.
func TestSlowEndpointsDelayNoOther(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	hold := make(chan struct{})
	slow := newEndpoint(t, func(http.ResponseWriter, int) { <-hold })
	t.Cleanup(func() { close(hold) })
	quick := newEndpoint(t, nil)
	w := d.hook(t, quick.URL, "")
	d.execute(t, `INSERT INTO webhooks (webhook_id, integration_id, url, secret, position, slow)
SELECT gen_random_uuid(), integration_id, $1 || '/' || n, secret, position, true
FROM webhooks, generate_series(1, 60) AS n`, slow.URL)
	want := d.happen(t, 21)
	// Otherwise other tests could delay the last changes until the requests to slow endpoints time out.
	testdb.Eventually(t, "all changes are in the feed", func() bool { return d.show(t, w.ID).Waiting == 21 })
	d.execute(t, `UPDATE webhooks SET rest_until = 'infinity' WHERE NOT slow`)
	d.worker(t, time.Hour)
	testdb.Eventually(t, "slow endpoints have all their places", func() bool { return slow.attempts() == 16 })
	d.execute(t, `UPDATE webhooks SET rest_until = now() WHERE NOT slow`)
	quick.wantTaken(t, want)
	if n := slow.attempts(); n != 16 {
		t.Errorf("%d requests to slow endpoints at a time", n)
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

// TestALostLease: a visit beyond its lease saves nothing, and its changes are sent again.
func TestALostLease(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e, release := newHeldEndpoint(t)
	w := d.hook(t, e.URL, "")
	d.worker(t, time.Hour)
	want := d.happen(t, 1)
	testdb.Eventually(t, "the request is there", func() bool { return e.attempts() == 1 })
	// As a change of the webhook does.
	if status := d.send(t, acme, http.MethodPatch, "/"+w.ID.String(), `{"types":["novel.approved","novel.rejected"]}`,
		nil); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	testdb.Eventually(t, "it is sent again", func() bool { return e.attempts() == 2 })
	close(release)
	testdb.Eventually(t, "both have ended", func() bool { return len(e.took()) == 2 })
	if got := slices.Compact(e.took()); !slices.Equal(got, want) {
		t.Errorf("took %v", got)
	}
	testdb.Eventually(t, "one outcome is saved", func() bool {
		var n int
		err := d.pool.QueryRow(context.Background(), `SELECT sum(attempts) FROM webhook_attempts`).Scan(&n)
		return err == nil && n == 1
	})
}

// TestRotationDuringAnAttempt: the change is sent again, signed with the new secret, and one outcome is saved.
func TestRotationDuringAnAttempt(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e, release := newHeldEndpoint(t)
	w := d.hook(t, e.URL, "")
	e.trust(w.Secret)
	d.worker(t, time.Hour)
	want := d.happen(t, 1)
	e.wantAttempts(t, 1)
	d.execute(t, `UPDATE webhooks SET rest_until = 'infinity'`) // until the endpoint has the new secret
	var rotated secretive
	if status := d.send(t, acme, http.MethodPost, "/"+w.ID.String()+"/rotate", `{"overlapSeconds":0}`,
		&rotated); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	e.trust(rotated.Secret)
	d.execute(t, `UPDATE webhooks SET rest_until = now()`)
	e.wantAttempts(t, 2)
	close(release)
	testdb.Eventually(t, "both have ended", func() bool { return len(e.took()) == 2 })
	if got := slices.Compact(e.took()); !slices.Equal(got, want) {
		t.Errorf("took %v", got)
	}
	var page attempts
	testdb.Eventually(t, "one outcome is saved", func() bool {
		d.send(t, acme, http.MethodGet, "/"+w.ID.String()+"/attempts", "", &page)
		return len(page.Items) == 1 && page.Items[0].State == webhooks.Delivered && page.Items[0].Attempts == 1
	})
}

// TestChangesDuringAnOverlap: both secrets sign changes until the overlap ends, then the new one alone.
func TestChangesDuringAnOverlap(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e := newEndpoint(t, nil)
	w := d.hook(t, e.URL, "")
	var rotated secretive
	if status := d.send(t, acme, http.MethodPost, "/"+w.ID.String()+"/rotate", `{"overlapSeconds":3600}`,
		&rotated); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	e.trust(w.Secret, rotated.Secret)
	d.worker(t, time.Hour)
	want := d.happen(t, 1)
	e.wantTaken(t, want)
	// Otherwise the next change could be sent in the same visit, which keeps its secrets.
	testdb.Eventually(t, "the visit has ended", func() bool {
		return testdb.Value[bool](t, d.pool, `SELECT holder IS NULL FROM webhooks`)
	})
	d.execute(t, `UPDATE webhooks SET previous_until = now()`)
	e.trust(rotated.Secret)
	e.distrust(w.Secret)
	e.wantTaken(t, append(want, d.happen(t, 1)...))
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
		"a save is lost, and one was sent":     {all, true, []string{"3", "4"}},
		"a save is lost, and one was unwanted": {rejected, true, []string{"3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newFixture(t)
			e := newEndpoint(t, nil)
			d.happen(t, 2) // 2 is approved, 3 rejected
			w := d.hook(t, e.URL, test.types)
			d.happen(t, 1) // 4 is approved
			paused := d.pausedFeed(false)
			d.workerOn(t, paused, time.Hour)
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
	d.worker(t, time.Hour)
	want := d.happen(t, 2)
	d.append(t, events.Recorded{
		StreamType: events.IntegrationStream, StreamID: other, StreamVersion: 2, ID: "import", Source: "service/imports",
		Event: events.ImportCompleted{},
	})
	elsewhere.wantAttempts(t, 1) // after those of the other one
	if n := e.attempts(); n > 0 {
		t.Errorf("%d requests for a disabled integration", n)
	}
	d.execute(t, `UPDATE integrations SET enabled = true`)
	e.wantTaken(t, want)
}
