package e2e_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/client"
	"novelgate/internal/testdb"
)

// Client returns a client of the service at the address, with the partner's key.
func (p *Partner) Client(t testing.TB, address string) *client.Client {
	t.Helper()
	return testdb.Must(client.New(address, p.APIKey, client.WithAttemptTimeout(patience),
		client.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}})))(t)
}

// fault changes how a proxy handles a request to the service.
type fault func(w http.ResponseWriter, r *http.Request, service http.Handler)

// through returns the address of a proxy to the service that applies each fault to one request, and then none.
func (s *Service) through(t testing.TB, faults ...fault) string {
	t.Helper()
	next := make(chan fault, len(faults))
	for _, f := range faults {
		next <- f
	}
	target := testdb.Must(url.Parse(s.URL))(t)
	service := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case f := <-next:
			f(w, r, service)
		default:
			service.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// cutAfterRequest: the service executes the request, and its answer is lost.
func cutAfterRequest(_ http.ResponseWriter, r *http.Request, service http.Handler) {
	service.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// cutInAnswer: the service executes the request, and the connection ends within its answer.
func cutInAnswer(w http.ResponseWriter, r *http.Request, service http.Handler) {
	answer := httptest.NewRecorder()
	service.ServeHTTP(answer, r)
	w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// refuseWith: a proxy answers instead of the service.
func refuseWith(status int) fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "Back in a moment.", status)
	}
}

// TestClientTellsWhy: the client returns refusals, replays, mismatches and replies as such.
func TestClientTellsWhy(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p, title, ctx := s.NewPartner(t), Unique("Why"), t.Context()
	c := p.Client(t, s.URL)
	comment := client.Post{UUID: "u", Username: "n", Novel: title, Content: "First."}
	first, err := c.Posts.Create(ctx, "evt-1", comment)
	if err != nil || !first.Created {
		t.Fatalf("%+v, %v", first, err)
	}
	comment.Content = "Second."
	if again, err := c.Posts.Create(ctx, "evt-1", comment); err != nil || again.Created || !again.Mismatch ||
		again.PostID != first.PostID {
		t.Errorf("mismatch: %+v, %v", again, err)
	}
	comment.ParentKey = "evt-1"
	if reply, err := c.Posts.Create(ctx, "evt-2", comment); err != nil || reply.ParentPostID == nil ||
		*reply.ParentPostID != first.PostID {
		t.Errorf("reply: %+v, %v", reply, err)
	}
	_, err = c.Posts.Create(ctx, "evt-3", client.Post{UUID: "u", Username: "n", Novel: title})
	refused, _ := errors.AsType[*client.Error](err)
	if refused == nil || refused.Code != "invalid_request" || refused.Status != 400 || refused.Retryable ||
		len(refused.Fields) != 1 || refused.Fields[0].Field != "content" || refused.RequestID == "" {
		t.Errorf("invalid: %v", err)
	}
	_, err = c.Deliveries.Get(ctx, client.OperationPosts, "evt-3")
	if refused, _ = errors.AsType[*client.Error](err); refused == nil || refused.Code != "not_found" {
		t.Errorf("no delivery: %v", err)
	}
	for _, key := range []string{"reconcile", "a?b#c%2F;=&", `.`} { // keys that are special in addresses
		if _, err := c.Posts.Create(ctx, key, comment); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		if found, err := c.Deliveries.Get(ctx, client.OperationPosts, key); err != nil || found.IdempotencyKey != key {
			t.Errorf("%s: %+v, %v", key, found, err)
		}
	}
	keys := []string{"evt-1", "lost"}
	missing, err := c.Deliveries.Missing(ctx, client.OperationPosts, append(keys, "evt-2"))
	if diff := cmp.Diff(keys[1:], missing); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%.2000s", err, diff)
	}
}
