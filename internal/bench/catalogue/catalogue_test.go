package catalogue_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/internal/bench/catalogue"
)

func TestRead(t *testing.T) {
	t.Parallel()
	got, err := catalogue.Read(strings.NewReader("book_id,authors,title,language_code,image_url,year\n" +
		"7,\"Ann, Bob\",\"One, Two\",eng,https://x.example/1.jpg,1999\n,,Three,,,\n"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got[1].Key, "row-") || len(got[1].Key) != 28 {
		t.Errorf("the key of a row without a book_id is %q", got[1].Key)
	}
	want := []catalogue.Novel{
		{Key: "book-7", Title: "One, Two", Author: "Ann, Bob", Language: "eng", CoverURL: "https://x.example/1.jpg"},
		{Key: got[1].Key, Title: "Three"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Read (-want +got)\n%s", diff)
	}
	for _, text := range []string{"", "book_id,authors\n1,Ann\n", "title\n\"open"} {
		if _, err := catalogue.Read(strings.NewReader(text)); err == nil {
			t.Errorf("Read(%q) succeeds", text)
		}
	}
}

// service answers like the real one as far as the loader can see.
type service struct {
	busy int // so many requests are told to come back first

	mu     sync.Mutex
	novels map[string]string // title → key
	posts  map[string]string // key → title
	sent   int
	t      *testing.T
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent++
	if s.sent <= s.busy {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"code":"rate_limited"}`))
		return
	}
	var body struct {
		Novel      string `json:"novel"`
		Author     string `json:"author"`
		ParentUUID string `json:"parent_uuid"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		s.t.Error(err)
	}
	key := r.Header.Get("Idempotency-Key")
	if strings.HasSuffix(r.URL.Path, "/novels") {
		s.upsert(w, key, body.Novel, body.Author)
		return
	}
	if body.ParentUUID != "" && s.posts[body.ParentUUID] != body.Novel {
		s.t.Errorf("%s about %q answers %s about %q", key, body.Novel, body.ParentUUID, s.posts[body.ParentUUID])
	}
	_, replayed := s.posts[key]
	s.posts[key] = body.Novel
	s.answer(w, replayed, !replayed, false, body.ParentUUID)
}

func (s *service) upsert(w http.ResponseWriter, key, title, author string) {
	first, known := s.novels[title]
	switch {
	case author == "too long":
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"code":"invalid_request","field":"author"}`))
	case !known:
		s.novels[title] = key
		s.answer(w, false, true, false, "")
	default:
		s.answer(w, first == key, false, true, "")
	}
}

func (s *service) answer(w http.ResponseWriter, replayed, created, updated bool, parent string) {
	if replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	if created {
		w.WriteHeader(http.StatusCreated)
	}
	if parent != "" {
		_, _ = fmt.Fprintf(w, `{"created":%v,"updated":%v,"parentPostId":%q}`, created, updated, parent)
		return
	}
	_, _ = fmt.Fprintf(w, `{"created":%v,"updated":%v,"parentPostId":null}`, created, updated)
}

func setup(t *testing.T, busy int) (*service, *catalogue.Client) {
	t.Helper()
	s := &service{busy: busy, novels: map[string]string{}, posts: map[string]string{}, t: t}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, &catalogue.Client{URL: server.URL, APIKey: "k", Connections: 4, HTTP: server.Client(), Now: time.Now}
}

func TestNovelsAndComments(t *testing.T) {
	t.Parallel()
	_, client := setup(t, 0)
	var novels []catalogue.Novel
	for i := range 50 {
		novels = append(novels, catalogue.Novel{Key: fmt.Sprint("book-", i), Title: fmt.Sprint("Novel ", i)})
	}
	novels = append(novels, catalogue.Novel{Key: "book-long", Title: "Refused", Author: "too long"})
	report, titles, err := client.Novels(t.Context(), novels)
	if err != nil {
		t.Fatal(err)
	}
	report.Took = 0
	if diff := cmp.Diff(&catalogue.Report{Created: 50, Refused: map[string]int{"400 invalid_request author": 1}},
		report); diff != "" || len(titles) != 50 {
		t.Errorf("%d titles, report (-want +got)\n%s", len(titles), diff)
	}

	const n = 2000
	posted, err := client.Comments(t.Context(), titles, 0, n)
	if err != nil {
		t.Fatal(err)
	}
	if posted.Created != n || posted.Replies < n/4 || posted.Replies > n*35/100 {
		t.Errorf("%d comments created, %d of them replies", posted.Created, posted.Replies)
	}
	again, err := client.Comments(t.Context(), titles, 0, n)
	if err != nil {
		t.Fatal(err)
	}
	if again.Replayed != n || again.Created != 0 {
		t.Errorf("of a second run, %d were created and %d replayed", again.Created, again.Replayed)
	}
}

func TestSendWaitsAsTold(t *testing.T) {
	t.Parallel()
	s, client := setup(t, 1)
	start := time.Now()
	report, _, err := client.Novels(t.Context(), []catalogue.Novel{{Key: "k", Title: "One"}})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); report.Created != 1 || report.Waits != 1 || s.sent != 2 || took < time.Second {
		t.Errorf("%+v after %d requests in %v", report, s.sent, took)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	report := &catalogue.Report{
		Created: 3, Updated: 1, Refused: map[string]int{"400 invalid_request author": 2}, Took: 1500 * time.Millisecond,
	}
	want := "novels: 6 sent in 1.5 s, 3 created, 1 updated\n  2 refused: 400 invalid_request author\n"
	if diff := cmp.Diff(want, report.Text("novels")); diff != "" {
		t.Errorf("Text (-want +got)\n%s", diff)
	}
}
