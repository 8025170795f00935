package e2e_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// TestDrainHandsOver sends SIGTERM, more than once, to one of two replicas under load. What it has accepted it answers;
// what it refuses, by taking no connection, it has not carried out: the other replica does so, as if for the first
// time.
func TestDrainHandsOver(t *testing.T) {
	t.Parallel()
	database := startServer(t, nil)
	replicas := startTwo(t, database.url())
	l := newLoad(t, newPartner(t, database.url()))
	var answered, refused atomic.Int64
	var ended atomic.Bool
	for sender := range 16 {
		l.all.Go(func() {
			var comments []*command
			for n := 0; !ended.Load(); n++ {
				c := l.next(fmt.Sprintf("%d-%d", sender, n), comments)
				closing := sender%2 == 0 // the others use connections that stay open
				a := l.send(l.book.t, replicas[0].URL, c.path, c.key, c.body, closing)
				if a.refused() {
					refused.Add(1)
					// Not even by accident has the first replica carried it out.
					if a = l.send(l.book.t, replicas[1].URL, c.path, c.key, c.body, true); a.header.Get("Idempotent-Replayed") != "" {
						t.Errorf("%s %s was carried out by a replica that did not answer", c.path, c.key)
					}
				} else {
					answered.Add(1)
				}
				l.book.enter(c, a)
				if !a.succeeded() {
					t.Errorf("%s %s: %d %v\n%s", c.path, c.key, a.status, a.err, a.body)
					return
				}
			}
		})
	}
	l.book.await(300)
	began := time.Now()
	replicas[0].signal(t, syscall.SIGTERM)
	var again sync.WaitGroup
	again.Go(func() {
		for range 3 { // supervisors repeat it
			time.Sleep(2 * time.Millisecond)
			_ = replicas[0].cmd.Process.Signal(syscall.SIGTERM) // it may have ended by now
		}
	})
	if code := replicas[0].wait(t); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	took := time.Since(began)
	again.Wait()
	handed := refused.Load()
	testdb.Eventually(t, "commands go to the other replica",
		func() bool { return refused.Load() >= handed+100 })
	ended.Store(true)
	l.all.Wait()
	seen := l.book.reconcile(t, l.Partner, replicas[1], database.url())
	if seen.unknown > 0 || answered.Load() == 0 {
		t.Errorf("%d commands have no answer and %d were answered by the first replica, want none and some", seen.unknown,
			answered.Load())
	}
	count := wantSoundLog(t, database.url())
	replicas[1].metrics(t)
	replicas[1].Stop(t)
	t.Logf("drained in %v: %d answered by the first replica, %d handed over; %d events", took, answered.Load(),
		refused.Load(), count)
}
