package history_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/testdb"
	"novelgate/readapi/history"
)

// entriesEnded waits until all entries are complete.
func (a *archive) entriesEnded(t *testing.T) (list []history.AccessEntry) {
	t.Helper()
	testdb.Eventually(t, "all entries are complete", func() bool {
		list = a.entries(t)
		return !slices.ContainsFunc(list, func(e history.AccessEntry) bool { return e.EndedAt == nil })
	})
	return list
}

// fill appends comments of about a kilobyte, a thousand in each transaction.
func (a *archive) fill(t *testing.T, count int) {
	t.Helper()
	const sql = `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, actor, batch_id)
SELECT (SELECT max(log_index) + 1 FROM events) + n, 'thread', gen_random_uuid(), 1, gen_random_uuid()::text, 'test',
    'thread.opened.v1', json_build_object('text', repeat('x', 1000)), 'test', gen_random_uuid()
FROM generate_series(0, $1::int - 1) n`
	for ; count > 0; count -= 1000 {
		testdb.Exec(t, a.pool, sql, min(count, 1000))
	}
}

// TestFollow runs longer than the server's deadlines and the time limit of requests, breaks the connection and
// continues from the cursor of the last line.
func TestFollow(t *testing.T) {
	t.Parallel()
	const limit = 5 * time.Second // a busy machine may need seconds for an answer
	a := newArchive(t, func(a *archive, server *http.Server) {
		server.ReadTimeout, server.WriteTimeout, a.api.Timeout = limit, limit, limit
		a.api.Heartbeat = 100 * time.Millisecond
	})
	ctx, cut := context.WithCancel(t.Context())
	response := a.open(ctx, t, a.otto, "/api/events?follow=true&cursor=now&streamType=novel", ndjson)
	list := a.entries(t)
	if len(list) != 1 || list[0].EndedAt != nil || list[0].Name != "otto" {
		t.Errorf("while it is being sent: %+v", list)
	}
	time.AfterFunc(limit+time.Second, func() { a.publish(t, "One") })
	first, blank, err := response.lines(1)
	if err != nil || len(first) != 1 || blank == 0 {
		t.Fatalf("%v with %d empty lines, %v", first, blank, err)
	}
	cut()
	a.entriesEnded(t) // the service knows it
	for n := range 5 {
		a.publish(t, fmt.Sprint("Novel ", n))
	}
	response = a.open(t.Context(), t, a.otto, "/api/events?follow=true&streamType=novel&cursor="+first[0], ndjson)
	time.AfterFunc(100*time.Millisecond, func() { a.publish(t, "Last") })
	rest, _, err := response.lines(6)
	if err != nil {
		t.Fatal(err)
	}
	want := a.get(t, a.otto, "/api/events?streamType=novel").ids(t)
	if diff := cmp.Diff(want, append(first, rest...)); diff != "" {
		t.Errorf("(-log +streams):\n%s", diff)
	}
	// A shutdown ends the stream without an error.
	a.draining.Store(true)
	if more, _, err := response.lines(0); err != nil || len(more) != 0 {
		t.Errorf("at the end: %v, %v", more, err)
	}
	list = a.entriesEnded(t)
	if *list[0].RowsReturned != 1 || *list[1].RowsReturned != 6 {
		t.Errorf("counts: %d, %d", *list[0].RowsReturned, *list[1].RowsReturned)
	}
}

// TestRevokedWhileReading: revoking a key ends its open streams, too.
func TestRevokedWhileReading(t *testing.T) {
	t.Parallel()
	a := newArchive(t, nil)
	c := a.open(t.Context(), t, a.otto, "/api/events?follow=true&cursor=now", ndjson)
	if c.status != http.StatusOK {
		t.Fatalf("status %d", c.status)
	}
	testdb.Must(a.staff.RevokeUserKey(t.Context(), a.ottosKeyID, "gone"))(t)
	if _, _, err := c.lines(0); err == nil {
		t.Error("it looks complete")
	}
	a.entriesEnded(t)
}

// failing is a database that fails after some pages.
type failing struct {
	*pgxpool.Pool
	left atomic.Int32
}

func (f *failing) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	if f.left.Add(-1) < 0 {
		return away{}
	}
	return f.Pool.SendBatch(ctx, batch)
}

// away is the result of a batch on an unreachable database.
type away struct{ pgx.BatchResults }

func (away) Close() error { return fmt.Errorf("the database is away: %w", io.ErrUnexpectedEOF) }

// TestBrokenStreamsLookBroken: a client can detect an incomplete stream.
func TestBrokenStreamsLookBroken(t *testing.T) {
	t.Parallel()
	var db failing
	a := newArchive(t, func(a *archive, _ *http.Server) {
		db.Pool = a.pool
		a.api.DB = &db
	})
	a.fill(t, 2000)
	db.left.Store(2)
	got, _, err := a.open(t.Context(), t, a.otto, "/api/events", ndjson).lines(0)
	if err == nil || len(got) != 1000 {
		t.Errorf("%d lines, %v", len(got), err)
	}
	// Before the first byte it is a normal error response.
	db.left.Store(0)
	if response := a.open(t.Context(), t, a.otto, "/api/events",
		ndjson); response.status != http.StatusServiceUnavailable {
		t.Errorf("status %d", response.status)
	}
	list := a.entriesEnded(t)
	if *list[0].RowsReturned != 1000 || *list[1].RowsReturned != 0 {
		t.Errorf("counts: %d, %d", *list[0].RowsReturned, *list[1].RowsReturned)
	}
}

// TestClientThatTakesNothing is disconnected after a while.
func TestClientThatTakesNothing(t *testing.T) {
	t.Parallel()
	a := newArchive(t, func(a *archive, _ *http.Server) { a.api.WriteTimeout = 2 * time.Second })
	a.fill(t, 20_000)
	a.open(t.Context(), t, a.otto, "/api/events", ndjson) // never read
	list := a.entriesEnded(t)
	if rows := *list[0].RowsReturned; rows == 0 || rows >= 20_000 {
		t.Errorf("%d rows", rows)
	}
}

// TestSetBack: a cursor after a lost event is refused, by pages and streams, and a stream that has sent it is aborted.
func TestSetBack(t *testing.T) {
	t.Parallel()
	a := newArchive(t, nil)
	a.publish(t, "Lost")
	ctx, cancel := context.WithTimeout(t.Context(), testdb.Patience)
	defer cancel()
	page := a.get(t, a.otto, "/api/events")
	following := a.open(ctx, t, a.otto, "/api/events?follow=true", ndjson)
	if _, _, err := following.lines(len(page.ids(t))); err != nil {
		t.Fatal(err)
	}

	testdb.Lose(t, a.pool, "event_type = 'novel.created.v1'")
	a.publish(t, "Another") // at the same log index
	path := "/api/events?cursor=" + page.str("cursor")
	refused := a.get(t, a.otto, path)
	if refused.status != http.StatusBadRequest || refused.str("code") != "invalid_request" ||
		refused.str("field") != "cursor" ||
		!strings.Contains(refused.str("detail"), "set back") || !strings.Contains(refused.str("detail"), "log index") {
		t.Errorf("%d %s", refused.status, refused.text)
	}
	if stream := a.open(t.Context(), t, a.otto, path+"&follow=true", ndjson); stream.status != http.StatusBadRequest {
		t.Errorf("a stream from there: %d", stream.status)
	}
	if more, _, err := following.lines(1); err == nil || ctx.Err() != nil {
		t.Errorf("a stream of a log that was set back: %v, %v", more, err)
	}
}

// slowClient takes a second for each write, and then calls after.
type slowClient struct {
	*httptest.ResponseRecorder
	clock *atomic.Int64
	sent  int
	after func()
}

func (s *slowClient) Write(p []byte) (int, error) {
	s.sent++
	s.clock.Add(int64(time.Second))
	s.after()
	return len(p), nil
}

// TestSlowClients: a revocation or a shutdown ends a stream before the next part of a page, even if the client is slow.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		query   string
		ends    func(a *archive)
		aborted bool
	}{
		"revoked":                {"", func(a *archive) { a.isRevoked.Store(true) }, true},
		"revoked while it waits": {"?follow=true", func(a *archive) { a.isRevoked.Store(true) }, true},
		"shutdown":               {"?follow=true", func(a *archive) { a.draining.Store(true) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newArchive(t, nil)
			a.fill(t, 450) // one page, which is sent in several parts
			var clock atomic.Int64
			a.api.Now = func() time.Time { return time.Now().Add(time.Duration(clock.Load())) }
			router := mux.NewRouter()
			a.api.Register(router)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/events"+c.query, http.NoBody)
			r.Header.Set("Authorization", "Bearer "+a.otto)
			r.Header.Set("Accept", ndjson)
			client := &slowClient{ResponseRecorder: httptest.NewRecorder(), clock: &clock, after: func() { c.ends(a) }}
			aborted := func() (aborted bool) {
				defer func() { aborted = recover() == http.ErrAbortHandler }() //nolint:errorlint // it is panicked with as it is
				a.api.Handler(router, nil).ServeHTTP(client, r)
				return false
			}()
			if client.sent != 1 || aborted != c.aborted {
				t.Errorf("%d parts were sent, aborted: %t", client.sent, aborted)
			}
			rows := a.entriesEnded(t)[0].RowsReturned
			if *rows == 0 || *rows >= 450 {
				t.Errorf("%d rows on record", *rows)
			}
		})
	}
}
