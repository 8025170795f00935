package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/client"
	"novelgate/internal/testdb"
)

// Client returns a client of the service at the address, with the partner's key.
func (p *Partner) Client(t testing.TB, address string) *client.Client {
	t.Helper()
	return p.hastyClient(t, address, patience)
}

// hastyClient returns a client whose attempts end after a time.
func (p *Partner) hastyClient(t testing.TB, address string, attempt time.Duration) *client.Client {
	t.Helper()
	c := testdb.Must(client.New(address, p.APIKey, client.WithAttemptTimeout(attempt),
		client.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}})))(t)
	return c
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
	return s.behind(t, func(w http.ResponseWriter, r *http.Request, service http.Handler) {
		select {
		case f := <-next:
			f(w, r, service)
		default:
			service.ServeHTTP(w, r)
		}
	})
}

// behind returns the address of a proxy to the service that applies the fault to every request. The service gets one
// request at a time: it has executed the one before, however early the client gave that up.
func (s *Service) behind(t testing.TB, f fault) string {
	t.Helper()
	target := testdb.Must(url.Parse(s.URL))(t)
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	var one sync.Mutex
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one.Lock()
		defer one.Unlock()
		forward.ServeHTTP(w, r)
	})
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f(w, r, service) }))
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// executed lets the service execute a request, also after the client has given it up, and keeps the answer.
func executed(r *http.Request, service http.Handler) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	service.ServeHTTP(answer, r.WithContext(context.WithoutCancel(r.Context())))
	return answer
}

// cutAfterRequest: the service executes the request, and its answer is lost.
func cutAfterRequest(_ http.ResponseWriter, r *http.Request, service http.Handler) {
	executed(r, service)
	panic(http.ErrAbortHandler)
}

// withholdBody: the service executes the request, and the body of its answer never arrives.
func withholdBody(w http.ResponseWriter, r *http.Request, service http.Handler) {
	answer := executed(r, service)
	w.Header().Set("Content-Length", fmt.Sprint(answer.Body.Len()))
	w.WriteHeader(answer.Code)
	_ = http.NewResponseController(w).Flush() // the header only
	<-r.Context().Done()
}

// refuseWith: a proxy answers instead of the service.
func refuseWith(status int) fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "Back in a moment.", status)
	}
}

// TestClientOutlastsFaults: with any fault of the network, a command is stored once, and its answer arrives.
func TestClientOutlastsFaults(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	for name, tc := range map[string]struct {
		faults  []fault
		stored  bool          // by the first attempt
		attempt time.Duration // may take
	}{
		"no fault":                {nil, false, patience},
		"cut after the request":   {[]fault{cutAfterRequest, cutAfterRequest}, true, patience},
		"a body that never comes": {[]fault{withholdBody}, true, time.Second},
		"503":                     {[]fault{refuseWith(503)}, false, patience},
		"429":                     {[]fault{refuseWith(429)}, false, patience},
		"one after the other, cut last": {
			[]fault{refuseWith(503), withholdBody, refuseWith(429), cutAfterRequest}, true, time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, title, ctx := s.NewPartner(t), Unique("Faults"), t.Context()
			faulty := func() *client.Client { return p.hastyClient(t, s.through(t, tc.faults...), tc.attempt) }
			novel, err := faulty().Novels.Upsert(ctx, "n", client.Novel{Title: title})
			if err != nil || novel.Replayed != tc.stored || novel.Created == tc.stored || novel.Updated != tc.stored {
				t.Errorf("novel: %+v, %v", novel, err)
			}
			post, err := faulty().Posts.Create(ctx, "evt/1", client.Post{
				UUID: "u", Username: "n", Novel: title, Content: "<3 & more", ChapterNumber: "12.5",
				Timestamp: time.Date(2025, time.March, 1, 17, 30, 0, 0, time.UTC),
			})
			if err != nil || post.Created == tc.stored || post.Replayed != tc.stored || post.Mismatch {
				t.Errorf("comment: %+v, %v", post, err)
			}
			delivery, err := faulty().Deliveries.Get(ctx, client.OperationPosts, "evt/1")
			if err != nil || delivery.PostID != post.PostID || delivery.NovelID != novel.NovelID ||
				delivery.PostState != "visible" || delivery.URL != post.URL {
				t.Errorf("delivery: %+v, %v", delivery, err)
			}
			var read Response
			testdb.Eventually(t, "readers see the comment", func() bool {
				read = s.Send(t, Request{Path: "/api/novels/" + novel.Slug + "/discussion"})
				return strings.Contains(string(read.Body), `"content"`)
			})
			if n := strings.Count(string(read.Body), `"content"`); n != 1 {
				t.Errorf("%d comments\n%s", n, read.Body)
			}
		})
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
	keys := []string{"evt-1"}
	for i := range 2345 {
		keys = append(keys, fmt.Sprintf("lost-%04d", i))
	}
	missing, err := c.Deliveries.Missing(ctx, client.OperationPosts, append(keys, "evt-2"))
	slices.Sort(missing)
	if diff := cmp.Diff(keys[1:], missing); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%.2000s", err, diff)
	}
}

// TestClientWaitsForTheLimit: it does not retry if the deadline is too near.
func TestClientWaitsForTheLimit(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p, title := s.NewPartner(t, Fields{"postsPerMinute": 1}), Unique("Limit")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := p.Client(t, s.URL)
	comment := client.Post{UUID: "u", Username: "n", Novel: title, Content: "Again."}
	testdb.Must(c.Posts.Create(ctx, "evt-1", comment))(t)
	ctx, cancel = context.WithTimeout(t.Context(), 30*time.Second) // less than the limit's minute, more than an answer
	defer cancel()
	_, err := c.Posts.Create(ctx, "evt-2", comment)
	if refused, _ := errors.AsType[*client.Error](err); refused == nil || refused.Code != "rate_limited" ||
		!refused.Retryable || !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
}
