package e2e_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// everywhere is the maximum time until a revocation holds on all replicas: a second (docs/openapi.yaml), and 1.5 s for
// a busy machine.
const everywhere = time.Second + 1500*time.Millisecond

// TestRevocationOnAnotherReplica issues a key of each kind, uses it on one replica, revokes it through another, and
// watches the answers of the first.
func TestRevocationOnAnotherReplica(t *testing.T) {
	t.Parallel()
	database := testdb.New(t)
	a, b := Start(t, database), Start(t, database)
	ada := a.NewStaff(t)
	me, admin := "/api/integrations/me", "/api/admin/novels?limit=1"
	byHTTP, byCLI, replaced, disabled, unable := a.NewPartner(t), a.NewPartner(t), a.NewPartner(t), a.NewPartner(t),
		a.NewPartner(t)
	staff, auditor := a.NewStaff(t), a.NewAuditor(t)
	var all sync.WaitGroup
	for _, c := range []struct {
		what          string
		path, key     string
		before, after int // statuses
		take          func()
	}{
		{"key over HTTP", me, byHTTP.APIKey, 200, 401, func() {
			if r := ada.Delete(t, "/api/admin/keys/"+byHTTP.KeyID+"?reason=test"); r.Status != http.StatusNoContent {
				t.Errorf("revoke: status %d\n%s", r.Status, r.Body)
			}
		}},
		{"key on the command line", me, byCLI.APIKey, 200, 401, func() { a.RevokeKey(t, byCLI.KeyID) }},
		{"key replaced without overlap", me, replaced.APIKey, 200, 401, func() {
			ada.Post(t, "/api/admin/keys/"+replaced.KeyID+"/rotate", Key(), Fields{}).WantJSON(t, 201,
				&struct{}{})
		}},
		{"integration", me, disabled.APIKey, 200, 403, func() { a.Integration(t, "disable", disabled.IntegrationID) }},
		{"capability", "", unable.APIKey, 400, 403, func() {
			a.Integration(t, "capability", unable.IntegrationID, "--disable", "posts")
		}},
		{"staff key", admin, staff.APIKey, 200, 401, func() { staff.Revoke(t) }},
		{"auditor key", admin, auditor.APIKey, 403, 401, func() { auditor.Revoke(t) }},
	} {
		all.Go(func() {
			request := Request{Path: c.path, Bearer: c.key}
			if c.path == "" { // an empty command: 400 once it has passed the capability
				request.Method, request.Path = http.MethodPost, PostsPath
				request.Key, request.ContentType, request.Body = "k", "application/json", []byte("{}")
			}
			w := watch(t, b, request, c.before, c.after)
			c.take()
			took, ok := w.ended(time.Now())
			t.Logf("%s: last answered as before %v after the revocation", c.what, took)
			if !ok || took > everywhere {
				t.Errorf("%s: still answered with %d %v after the revocation", c.what, c.before, took)
			}
		})
	}
	all.Wait()
}

// watched is a request that is sent again and again until its answer changes for good.
type watched struct {
	t    *testing.T
	last time.Time // when the last request with the earlier status was sent
	done chan bool // whether the answer has changed
}

// watch waits for an answer with the status before, and then repeats the request in the background.
func watch(t *testing.T, s *Service, request Request, before, after int) *watched {
	w := &watched{t: t, done: make(chan bool, 1)}
	w.last = time.Now()
	testdb.Eventually(t, request.Path+" is answered before the revocation",
		func() bool { return s.Send(t, request).Status == before })
	go func() {
		const pause = 50 * time.Millisecond // 20 queries a second, which the limit of an integration allows forever
		deadline := time.Now().Add(patience)
		for time.Now().Before(deadline) {
			sentAt := time.Now()
			switch got := s.Send(t, request).Status; got {
			case before:
				w.last = sentAt
			case after:
				for range 20 { // the key must stay revoked
					if again := s.Send(t, request).Status; again != after && again != http.StatusServiceUnavailable {
						t.Errorf("%s: status %d after the revocation had arrived", request.Path, again)
					}
					time.Sleep(5 * time.Millisecond)
				}
				w.done <- true
				return
			case http.StatusServiceUnavailable: // a busy machine; the key was not checked
			default:
				t.Errorf("%s: status %d, want %d or %d", request.Path, got, before, after)
			}
			time.Sleep(pause)
		}
		w.done <- false
	}()
	return w
}

// ended waits for the change and returns for how long after the time of the revocation requests were still answered as
// before.
func (w *watched) ended(revoked time.Time) (time.Duration, bool) {
	w.t.Helper()
	ok := <-w.done
	return w.last.Sub(revoked), ok
}
