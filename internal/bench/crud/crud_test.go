package crud_test

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/bench/crud"
	"novelgate/internal/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }

func setup(t *testing.T) http.Handler {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), testdb.NewEmpty(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := crud.CreateTables(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	server := &crud.Server{
		Pool: pool, Keys: map[[sha256.Size]byte]uuid.UUID{sha256.Sum256([]byte("secret")): uuid.New()},
		PublicURL: "http://peer.example",
		Now:       func() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) },
	}
	return server.Handler()
}

type answer struct {
	Created      bool
	PostID       uuid.UUID
	ThreadID     uuid.UUID
	ParentPostID *uuid.UUID
	URL          string
}

func post(t *testing.T, handler http.Handler, key, body string, wantStatus int) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/integrations/posts", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer secret")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != wantStatus {
		t.Errorf("status %d, want %d: %s", w.Code, wantStatus, w.Body)
	}
	var got answer
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Error(err)
	}
	return got
}

const comment = `{"uuid":"u1","username":"Ann","novel":"A Novel","content":"Good.","chapterNumber":1.5}`

func TestComments(t *testing.T) {
	t.Parallel()
	handler := setup(t)
	first := post(t, handler, "k1", comment, http.StatusCreated)
	again := post(t, handler, "k1", comment, http.StatusOK)
	reply := post(t, handler, "k2", `{"uuid":"u2","username":"Bob","novel":"a NOVEL","content":"Yes.","parent_uuid":"k1"}`,
		http.StatusCreated)
	stray := post(t, handler, "k3", `{"uuid":"u2","username":"Bob","novel":"Another","content":"No.","parent_uuid":"k1"}`,
		http.StatusCreated)

	if !first.Created || again.Created || again.PostID != first.PostID || again.ThreadID != first.ThreadID ||
		again.URL != first.URL {
		t.Errorf("the retry was answered with %+v, the original with %+v", again, first)
	}
	if reply.ThreadID != first.ThreadID || reply.ParentPostID == nil || *reply.ParentPostID != first.PostID {
		t.Errorf("the reply was stored as %+v below %+v", reply, first)
	}
	if stray.ThreadID == first.ThreadID || stray.ParentPostID != nil {
		t.Errorf("a parent in another discussion was kept: %+v", stray)
	}
	id := first.PostID.String()
	if want := "http://peer.example/novels/a-novel/discussion?post=" + id + "#post-" + id; first.URL != want {
		t.Errorf("url %q, want %q", first.URL, want)
	}
	post(t, handler, "k4", `{"uuid":"u1"}`, http.StatusBadRequest)
}

func TestConcurrentRetriesAreStoredOnce(t *testing.T) {
	t.Parallel()
	handler := setup(t)
	post(t, handler, "k0", comment, http.StatusCreated)
	var wg sync.WaitGroup
	created := make(chan bool, 16)
	for range 16 {
		wg.Go(func() {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/integrations/posts",
				strings.NewReader(comment))
			r.Header = http.Header{
				"Authorization": {"Bearer secret"}, "Content-Type": {"application/json"}, "Idempotency-Key": {"k1"},
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != http.StatusOK && w.Code != http.StatusCreated {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
			created <- w.Code == http.StatusCreated
		})
	}
	wg.Wait()
	close(created)
	n := 0
	for c := range created {
		if c {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d requests created the comment, want 1", n)
	}
}
