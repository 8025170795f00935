package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// TestOpenTransactionsDelayNobody holds writing transactions open, in the database of the service and in another one of
// the same server, while comments are appended: whatever follows the log goes on.
func TestOpenTransactionsDelayNobody(t *testing.T) {
	t.Parallel()
	databaseURL := testdb.New(t)
	s := Start(t, databaseURL, "--webhook-allow-cidr", "127.0.0.1/32")
	ada, auditor, p := s.NewStaff(t), s.NewAuditor(t), s.NewPartner(t)
	title := Unique("Delayed")
	novel := p.Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)
	var told atomic.Int64 // messages to the webhook
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		told.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(endpoint.Close)
	p.NewWebhook(t, endpoint.URL)
	history := followHistory(t, s, auditor)

	wantOpen := []func(){holdTransaction(t, databaseURL), holdTransaction(t, testdb.NewEmpty(t))}
	const comments = 50
	for range comments {
		p.Import(t, Key(), Comment(title)).WantPost(t, 201)
	}
	ada.Post(t, "/api/admin/novels/"+novel.NovelID+"/reject", Key(), Fields{"reason": "no"}).WantJSON(t, 200, &struct{}{})
	appended, end := time.Now(), value[int64](t, databaseURL, `SELECT max(log_index) FROM events`)
	for _, follower := range []struct {
		name     string
		atTheEnd func() bool
	}{
		{"every projection", func() bool {
			return value[bool](t, databaseURL, `SELECT min(position) > $1 AND (SELECT count(*) FROM posts) = $2 FROM projections`, end,
				comments)
		}},
		{"the ledger", func() bool {
			return value[bool](t, databaseURL, `SELECT coalesce(max(tree_size), 0) > $1 FROM ledger_checkpoints`, end)
		}},
		{"the stream of the history", func() bool { return history.Load() >= end }},
		{"the feed of changes", func() bool {
			feed := p.feed(t)
			return len(feed) > 0 && feed[len(feed)-1].Type == "novel.rejected"
		}},
		{"the webhook", func() bool { return told.Load() > 0 }},
	} {
		testdb.Eventually(t, follower.name+" is at the end", follower.atTheEnd)
		t.Logf("%s was at the end after %v", follower.name, time.Since(appended).Round(time.Millisecond))
	}
	for _, want := range wantOpen {
		want()
	}
}

// holdTransaction begins a transaction in a database, writes in it, and leaves it open until the test ends. wantOpen
// checks that it is still open.
func holdTransaction(t *testing.T, databaseURL string) (wantOpen func()) {
	t.Helper()
	connection := testdb.Connect(t, databaseURL)
	testdb.Exec(t, connection, `BEGIN ISOLATION LEVEL REPEATABLE READ`)
	testdb.Exec(t, connection, `CREATE TABLE held AS SELECT n FROM generate_series(1, 10) AS n`)
	const transaction = `SELECT pg_current_xact_id_if_assigned()::text`
	held := testdb.Value[string](t, connection, transaction)
	return func() {
		t.Helper()
		if now := testdb.Value[string](t, connection, transaction); now != held || held == "" {
			t.Errorf("the transaction is %q, it was %q: this test has shown nothing", now, held)
		}
	}
}

// followHistory opens a stream of new events, and returns the log index of the latest one.
func followHistory(t *testing.T, s *Service, auditor *Person) (latest *atomic.Int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := testdb.Must(http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/api/events?follow=true&cursor=now", nil))(t)
	r.Header.Set("Authorization", "Bearer "+auditor.APIKey)
	r.Header.Set("Accept", "application/x-ndjson")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		t.Fatalf("the stream is answered with %d", response.StatusCode)
	}
	latest = new(atomic.Int64)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			var event struct {
				LogIndex int64 `json:"logindex,string"`
			}
			if err := json.Unmarshal(lines.Bytes(), &event); err == nil { // otherwise it is a heartbeat
				latest.Store(event.LogIndex)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return latest
}
