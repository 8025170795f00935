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
	me, admin := Request{Path: "/api/integrations/me"}, Request{Path: "/api/admin/novels?limit=1"}
	byHTTP, byCLI, replaced, disabled, unable := a.NewPartner(t), a.NewPartner(t), a.NewPartner(t), a.NewPartner(t),
		a.NewPartner(t)
	staff, auditor := a.NewStaff(t), a.NewAuditor(t)
	var all sync.WaitGroup
	for _, c := range []struct {
		what          string
		request       Request
		key           string
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
			ada.Post(t, "/api/admin/keys/"+replaced.KeyID+"/rotate", Key(), Fields{}).WantJSON(t, 201, &struct{}{})
		}},
		{"integration", me, disabled.APIKey, 200, 403, func() {
			a.MustCLI(t, "integration", "disable", disabled.IntegrationID)
		}},
		// An empty command: 400 once it has passed the capability.
		{"capability", unable.Request(PostsPath, "k", []byte("{}")), unable.APIKey, 400, 403, func() {
			a.MustCLI(t, "integration", "capability", unable.IntegrationID, "--disable", "posts")
		}},
		{"staff key", admin, staff.APIKey, 200, 401, func() { staff.Revoke(t) }},
		{"auditor key", admin, auditor.APIKey, 403, 401, func() { auditor.Revoke(t) }},
	} {
		all.Go(func() {
			c.request.Bearer = c.key
			testdb.Eventually(t, c.what+" is answered before the revocation",
				func() bool { return b.Send(t, c.request).Status == c.before })
			last := time.Now() // when the last request with the earlier status was sent
			done := make(chan struct{})
			go func() {
				defer close(done)
				testdb.Eventually(t, c.what+" is refused", func() bool {
					sentAt := time.Now()
					switch got := b.Send(t, c.request).Status; got {
					case c.before:
						last = sentAt
					case c.after:
						return true
					case http.StatusServiceUnavailable: // a busy machine; the key was not checked
					default:
						t.Errorf("%s: status %d, want %d or %d", c.what, got, c.before, c.after)
					}
					time.Sleep(50 * time.Millisecond) // 20 queries a second, which the limit of an integration allows forever
					return false
				})
				for range 20 { // the key must stay revoked
					if again := b.Send(t, c.request).Status; again != c.after && again != http.StatusServiceUnavailable {
						t.Errorf("%s: status %d after the revocation had arrived", c.what, again)
					}
					time.Sleep(5 * time.Millisecond)
				}
			}()
			c.take()
			revoked := time.Now()
			<-done
			if took := last.Sub(revoked); took > everywhere {
				t.Errorf("%s: still answered with %d %v after the revocation", c.what, c.before, took)
			}
		})
	}
	all.Wait()
}
