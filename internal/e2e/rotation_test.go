package e2e_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// sent is a comment on its way: which key carried it, when, and what came of it.
type sent struct {
	key           string // Idempotency-Key
	withOld       bool
	before, after time.Time
	status        int
	postID        string
}

// accepted tells whether the comment is stored. 200 is the answer to a repetition after 503.
func (c sent) accepted() bool { return c.status == http.StatusCreated || c.status == http.StatusOK }

// TestRotationUnderLoad rotates a key while comments come in with it. Some senders change to the new key during the
// overlap, the others when they are refused.
func TestRotationUnderLoad(t *testing.T) {
	t.Parallel()
	const (
		senders = 6
		overlap = 2 * time.Second
		pace    = 15 * time.Millisecond // between comments of one sender
	)
	s := Shared(t)
	ada := s.NewStaff(t)
	old := s.NewPartner(t)
	title := Unique("Rotated")
	old.Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)

	var (
		mu       sync.Mutex
		all      []sent
		rotated  = make(chan *Partner, senders) // the same partner with the new key, one for each
		finished = make(chan struct{})
		running  sync.WaitGroup
	)
	send := func(p *Partner, key string) sent {
		c := sent{key: key, withOld: p == old, status: http.StatusServiceUnavailable}
		var response Response
		for c.status == http.StatusServiceUnavailable { // a busy machine: the same again, as the documents say
			c.before = time.Now()
			response = p.Import(t, key, Comment(title))
			c.after, c.status = time.Now(), response.Status
		}
		if c.accepted() {
			c.postID = response.WantPost(t, c.status).PostID
		} else {
			response.WantProblem(t, 401, "unauthorized")
		}
		mu.Lock()
		all = append(all, c)
		mu.Unlock()
		return c
	}
	for i := range senders {
		early := i%2 == 0
		running.Go(func() {
			p, next := old, (*Partner)(nil)
			var change <-chan time.Time
			for n := 0; ; n++ {
				select {
				case <-finished:
					return
				case next = <-rotated:
					if early {
						change = time.After(overlap / 2)
					}
				case <-change:
					p = next
				case <-time.After(pace):
				}
				c := send(p, fmt.Sprintf("%d-%d", i, n))
				if !c.accepted() && c.withOld && next != nil {
					p = next
					if again := send(p, c.key); !again.accepted() {
						t.Errorf("a comment that the old key did not bring in is %d with the new one", again.status)
					}
				}
			}
		})
	}

	testdb.Eventually(t, "comments come in", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(all) >= senders
	})
	var issued IssuedKey
	earliest := time.Now().Add(overlap)
	ada.Post(t, "/api/admin/keys/"+old.KeyID+"/rotate", Key(),
		Fields{"overlapSeconds": int(overlap / time.Second)}).WantJSON(t, 201, &issued)
	latest := time.Now().Add(overlap)
	ends := expiryOf(t, ada, old)
	if ends.Before(earliest.Truncate(time.Microsecond)) || ends.After(latest) {
		t.Errorf("the old key ends at %v, want from %v to %v", ends, earliest, latest)
	}
	fresh := &Partner{NewIntegration: old.NewIntegration, Service: s}
	fresh.KeyID, fresh.APIKey = issued.KeyID, issued.APIKey
	for range senders {
		rotated <- fresh
	}
	time.Sleep(time.Until(ends.Add(500 * time.Millisecond)))
	close(finished)
	running.Wait()

	late := old.Import(t, Key(), Comment(title)) // whoever never changes is out
	late.WantProblem(t, 401, "unauthorized")
	wantRotation(t, all, ends)
	wantAllOnRecord(t, fresh, title, all)
}

// expiryOf returns when the partner's key ends, as the list of keys says.
func expiryOf(t *testing.T, ada *Person, p *Partner) time.Time {
	t.Helper()
	var keys struct{ Items []ListedKey }
	ada.Get(t, "/api/admin/integrations/"+p.IntegrationID+"/keys").WantJSON(t, 200, &keys)
	for _, key := range keys.Items {
		if key.KeyID == p.KeyID && key.ExpiresAt != nil {
			return *key.ExpiresAt
		}
	}
	t.Fatalf("keys %+v, want %s with its end", keys.Items, p.KeyID)
	return time.Time{}
}

// wantRotation wants the old key to work until it ends and not after, and the new one always. Service and test share a
// clock.
func wantRotation(t *testing.T, all []sent, ends time.Time) {
	t.Helper()
	oldWorked, oldRefused, newWorked := 0, 0, 0
	for _, c := range all {
		switch {
		case !c.withOld && !c.accepted():
			t.Errorf("the new key was refused")
		case !c.withOld:
			newWorked++
		case c.accepted():
			oldWorked++
			if c.before.After(ends) {
				t.Errorf("the old key worked %v after its end", c.before.Sub(ends))
			}
		default:
			oldRefused++
			if c.after.Before(ends) {
				t.Errorf("the old key was refused %v before its end", ends.Sub(c.after))
			}
		}
	}
	t.Logf("old key: %d accepted, %d refused; new key: %d accepted", oldWorked, oldRefused, newWorked)
	if oldWorked == 0 || newWorked == 0 {
		t.Error("one of the keys was never used: this test has shown nothing")
	}
}

// wantAllOnRecord finds each accepted comment again: by reconciliation, by a replay, and some by their delivery.
func wantAllOnRecord(t *testing.T, p *Partner, title string, all []sent) {
	t.Helper()
	var keys []string
	for _, c := range all {
		if c.accepted() {
			keys = append(keys, c.key)
		}
	}
	for rest := keys; len(rest) > 0; {
		part := rest[:min(1000, len(rest))]
		rest = rest[len(part):]
		var answer struct {
			Missing []string
			Present int
		}
		body := Fields{"operation": "posts", "idempotencyKeys": part}.JSON(t)
		p.Service.Send(t, p.Request("/api/integrations/deliveries/reconcile", "", body)).WantJSON(t, 200, &answer)
		if len(answer.Missing) > 0 || answer.Present != len(part) {
			t.Errorf("accepted and not on record: %v", answer.Missing)
		}
	}
	for i, c := range all {
		if !c.accepted() {
			continue
		}
		replay := p.Import(t, c.key, Comment(title))
		replay.WantReplayed(t, true, false)
		if post := replay.WantPost(t, 200); post.PostID != c.postID {
			t.Errorf("key %s is post %s, and was %s", c.key, post.PostID, c.postID)
		}
		if i%10 == 0 {
			var delivery struct{ PostID string }
			p.Inquire(t, "/api/integrations/deliveries/"+c.key+"?operation=posts").WantJSON(t, 200, &delivery)
			if delivery.PostID != c.postID {
				t.Errorf("the delivery of key %s is post %s, and was %s", c.key, delivery.PostID, c.postID)
			}
		}
	}
}
