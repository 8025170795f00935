package load_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/internal/bench/load"
)

// endpoint answers like the service, except that every refuse-th comment is refused.
type endpoint struct {
	refuse int

	mu   sync.Mutex
	keys map[string]bool
	seen int
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keys[r.Header.Get("Idempotency-Key")] = true
	e.seen++
	if e.refuse > 0 && e.seen%e.refuse == 0 {
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	parent := "null"
	if strings.Contains(string(body), "parent_uuid") {
		parent = `"` + uuid.NewString() + `"`
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"created":true,"postId":%q,"threadId":%q,"parentPostId":%s,"url":"u"}`, uuid.New(), uuid.New(),
		parent)
}

func run(t *testing.T, e *endpoint) load.Result {
	t.Helper()
	e.keys = map[string]bool{}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	l, err := load.Open(t.Context(), load.Config{
		Host: strings.TrimPrefix(server.URL, "http://"), APIKey: "k", Connections: 4, Duration: 100 * time.Millisecond,
		Titles: 10, Replies: 0.3, Run: 1, Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	result, err := l.Run()
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestRunCounts(t *testing.T) {
	t.Parallel()
	e := &endpoint{}
	result := run(t, e)
	if result.Accepted == 0 || result.Accepted != e.seen || len(e.keys) != e.seen || len(result.Failed) != 0 {
		t.Errorf("%d accepted and %v failed of %d sent with %d keys", result.Accepted, result.Failed, e.seen, len(e.keys))
	}
	if result.P50 <= 0 || result.P99 < result.P50 || result.Elapsed < 100*time.Millisecond {
		t.Errorf("the times make no sense: %+v", result)
	}
}

func TestRunCountsRefusals(t *testing.T) {
	t.Parallel()
	e := &endpoint{refuse: 3}
	result := run(t, e)
	if want := e.seen / 3; result.Failed["status 429"] != want || result.Accepted != e.seen-want {
		t.Errorf("%d accepted and %v failed of %d sent, want %d refusals", result.Accepted, result.Failed, e.seen, want)
	}
}

func TestPrepareReachesEveryNovelOnce(t *testing.T) {
	t.Parallel()
	e := &endpoint{keys: map[string]bool{}}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	err := load.Prepare(t.Context(),
		load.Config{Host: strings.TrimPrefix(server.URL, "http://"), Titles: 100, Now: time.Now})
	if err != nil || e.seen != 100 || len(e.keys) != 100 {
		t.Errorf("%d comments with %d keys, %v", e.seen, len(e.keys), err)
	}
}
