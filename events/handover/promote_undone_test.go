package handover_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/handover"
	"novelgate/events/ledger"
	"novelgate/internal/testdb"
)

// mirrored makes the mirror of a pair, which follows the origin at a URL.
func (p *pair) mirrored(t *testing.T, originURL string) *pgxpool.Pool {
	t.Helper()
	copied := p.Backup()
	p.Origin = p.operator() // Backup has closed the pool of the former one
	tile := tlog.Tile{H: ledger.TileHeight, W: int(copied.Latest().Tree.N)}
	leaves, err := ledger.NewStore(copied.Pool).Tile(t.Context(), tile)
	if err != nil {
		t.Fatal(err)
	}
	edge := ledger.NewEdge()
	for leaf := range slices.Chunk(leaves, tlog.HashSize) {
		if err := edge.Push(tlog.Hash(leaf), 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	copied.Tamper(`UPDATE log_identity SET id = '` + mirrorLog.String() + `';
		UPDATE ledger_memories SET memory = '00000000-0000-0000-0000-000000000000'`)
	copied.Exec(`INSERT INTO mirror (origin_url, tree_size, edge, started_at, applied_at) VALUES ($1, $2, $3, now(), now())`,
		originURL, edge.Size(), edge.Nodes())
	return copied.Pool
}

// promoter returns a run of the command at a mirror, with its own files.
func promoter(t *testing.T, mirror *pgxpool.Pool) *handover.Mirror {
	t.Helper()
	dir := t.TempDir()
	return &handover.Mirror{
		Pool: mirror, KeyFile: filepath.Join(dir, "key"), Memory: filepath.Join(dir, "memory"), Wait: time.Minute,
		OriginAnswers: true, Client: http.DefaultClient,
	}
}

const (
	mirrorsRow = `SELECT FROM mirror FOR UPDATE`
	vacuums    = `LOCK TABLE events IN SHARE UPDATE EXCLUSIVE MODE` // as a VACUUM does
)

// hold holds the lock of a statement until release is called.
func hold(t *testing.T, db *pgxpool.Pool, statement string) (release func()) {
	t.Helper()
	tx := testdb.Begin(t, db)
	testdb.Exec(t, tx, statement)
	return func() {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// awaitBlocked waits until n sessions wait for a lock.
func awaitBlocked(t *testing.T, db *pgxpool.Pool, n int) {
	t.Helper()
	testdb.Eventually(t, "the sessions wait for a lock", func() bool {
		return testdb.Value[int](t, db, `SELECT count(*)::int FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND datname = current_database()`) == n
	})
}

// publish serves /ledger/origins of the origin of a pair. It answers commands as before a handover: for a moment, a
// replica does not know of it.
func (p *pair) publish(t *testing.T) (url string) {
	t.Helper()
	return answering(t, func(r *http.Request) (published handover.Published, status int, successor string) {
		published, err := handover.Publish(r.Context(), p.Ledger.Pool)
		if err != nil {
			t.Errorf("%s: %v", r.URL, err)
		}
		return published, http.StatusUnauthorized, ""
	})
}

// answering serves /ledger/origins, and refuses commands with a status and the address of another service.
func answering(
	t *testing.T, answer func(r *http.Request) (published handover.Published, status int, origin string),
) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		published, status, origin := answer(r)
		if r.Method == http.MethodPost {
			w.WriteHeader(status)
			_ = json.MarshalWrite(w, map[string]string{"code": "any", "origin": origin}) // a failure shows in the client
			return
		}
		if r.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: a cache may answer: %v", r.URL, r.Header)
		}
		_ = json.MarshalWrite(w, published)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestPromoteUndone: after a handover is undone, neither a promotion that has waited for a lock meanwhile nor a copy of
// the token promotes the mirror.
func TestPromoteUndone(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	mirror := p.mirrored(t, p.publish(t))
	m := promoter(t, mirror)
	token, err := p.HandOver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, handover.ErrRefused) || !strings.Contains(err.Error(), "undone") {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := os.Stat(m.KeyFile); !os.IsNotExist(err) {
			t.Errorf("%s leaves keys: %v", what, err)
		}
	}
	release := hold(t, mirror, mirrorsRow)
	ended := make(chan error, 1)
	go func() {
		_, err := m.Promote(t.Context(), token)
		ended <- err
	}()
	awaitBlocked(t, mirror, 1)
	if err := p.Undo(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	release()
	refused("a promotion that has waited", <-ended)
	_, err = m.Promote(t.Context(), token)
	refused("a copy", err)
	later, err := p.HandOver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Promote(t.Context(), token)
	refused("a copy after another handover", err)
	if done, err := m.Promote(t.Context(), later); err != nil || done.ID != later.Promotion {
		t.Errorf("after another handover: %v, %v", done, err)
	}
}

// TestPromoteAsks: a service at the address of the origin that accepts commands, has another handover or is a mirror
// refuses the promotion. One on a standby of the origin's database, which may be behind, does not refuse it, nor permit
// it while the origin answers commands.
func TestPromoteAsks(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	published, status, successor := handover.Published{}, 0, ""
	mirror := p.mirrored(t, answering(t, func(*http.Request) (handover.Published, int, string) {
		return published, status, successor
	}))
	m := promoter(t, mirror)
	token, err := p.HandOver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	origin, other := uuid.New(), uuid.New()
	for _, c := range []struct {
		what      string
		log       uuid.UUID
		handover  *uuid.UUID
		standby   bool
		status    int
		successor string
		refusal   string // "" if it is promoted
	}{
		{"it accepts commands", origin, nil, false, http.StatusUnauthorized, "", "undone"},
		{"it has just been undone", origin, nil, false, http.StatusServiceUnavailable, "https://mirror.example", "undone"},
		{"its database did not answer a moment ago", origin, nil, false, http.StatusServiceUnavailable, "", "undone"},
		{"its standby lags", origin, &token.Promotion, true, http.StatusUnauthorized, "", "whether the handover was undone"},
		{"a standby of another handover", origin, &other, true, http.StatusServiceUnavailable, "", "undone"},
		{"another mirror", other, nil, false, http.StatusMisdirectedRequest, "https://o.example", "leads to another mirror"},
		{"the mirror itself", mirrorLog, nil, false, http.StatusMisdirectedRequest, "https://o.example", "to this mirror"},
		{"only a standby, which lags", origin, nil, true, http.StatusServiceUnavailable, "", ""},
	} {
		published = handover.Published{Log: c.log, Handover: c.handover, Standby: c.standby}
		status, successor = c.status, c.successor
		done, err := m.Promote(t.Context(), token)
		switch {
		case c.refusal == "" && (err != nil || done.ID != token.Promotion):
			t.Errorf("%s: %v, %v", c.what, done, err)
		case c.refusal != "" && (!errors.Is(err, handover.ErrRefused) || !strings.Contains(err.Error(), c.refusal)):
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestPromoteAwaitsUndo: a standby that answers once an undo was seen at the origin does not say how it has ended.
func TestPromoteAwaitsUndo(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	origin := uuid.New()
	var asked atomic.Int32
	m := promoter(t, p.mirrored(t, answering(t, func(r *http.Request) (handover.Published, int, string) {
		if r.Method == http.MethodPost {
			asked.Add(1)
		}
		if asked.Load() == 1 {
			return handover.Published{Log: origin, Changing: true}, http.StatusServiceUnavailable, "https://mirror.example"
		}
		return handover.Published{Log: origin, Standby: true}, http.StatusServiceUnavailable, ""
	})))
	token := testdb.Must(p.HandOver(t.Context()))(t)
	if _, err := m.Promote(t.Context(), token); !errors.Is(err, handover.ErrRefused) || asked.Load() != 2 {
		t.Errorf("promoted after %d questions: %v", asked.Load(), err)
	}
}

// overloaded returns the URL of a service that answers commands, with what answer returns, and no readers.
func overloaded(t *testing.T, answer func() (status int, problem map[string]string)) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, problem := http.StatusServiceUnavailable, map[string]string{"code": "unavailable"}
		if r.Method == http.MethodPost {
			status, problem = answer()
		}
		w.WriteHeader(status)
		_ = json.MarshalWrite(w, problem) // a failure shows in the client
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestPromoteAsksOverloaded: an origin that answers commands, and does not say whether it hands over, is not off. A
// proxy that answers in its place says nothing.
func TestPromoteAsksOverloaded(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	status, problem := 0, map[string]string(nil)
	m := promoter(t, p.mirrored(t, overloaded(t, func() (int, map[string]string) { return status, problem })))
	m.OriginAnswers = false
	token, err := p.HandOver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status int
		code   string
		origin string
	}{
		{http.StatusUnauthorized, "unauthorized", ""}, // it accepts commands
		{http.StatusMisdirectedRequest, "misdirected", "https://o.example"},
		{http.StatusServiceUnavailable, "unavailable", "https://mirror.example"}, // the undo may be under way
	} {
		status, problem = c.status, map[string]string{"code": c.code, "origin": c.origin}
		if _, err := m.PromoteLost(t.Context(), "", nil); !errors.Is(err, handover.ErrRefused) {
			t.Errorf("%s: promoted without the origin: %v", c.code, err)
		}
		if _, err := m.Promote(t.Context(), token); !errors.Is(err, handover.ErrRefused) {
			t.Errorf("%s: promoted: %v", c.code, err)
		}
	}
	status, problem = http.StatusUnauthorized, nil
	if _, err := m.Promote(t.Context(), token); err != nil {
		t.Errorf("behind a proxy: %v", err)
	}
}

// TestPromoteLostAsks: an origin that answers refuses the promotion, and so does a mirror at its address, because the
// origin may still run.
func TestPromoteLostAsks(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	published, status := handover.Published{}, 0
	m := promoter(t, p.mirrored(t, answering(t, func(*http.Request) (handover.Published, int, string) {
		return published, status, ""
	})))
	m.OriginAnswers = false
	for _, c := range []struct {
		log    uuid.UUID
		status int
		want   string
	}{
		{uuid.New(), http.StatusUnauthorized, "the origin answers"},
		{mirrorLog, http.StatusUnauthorized, "the origin answers"}, // both databases were copied from one
		{mirrorLog, http.StatusMisdirectedRequest, "leads to this mirror"},
		{uuid.New(), http.StatusMisdirectedRequest, "leads to another mirror"},
	} {
		published.Log, status = c.log, c.status
		if _, err := m.PromoteLost(t.Context(), "", nil); !errors.Is(err, handover.ErrRefused) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("promoted: %v, want %q", err, c.want)
		}
	}
	m.OriginAnswers = true
	if done, err := m.PromoteLost(t.Context(), "", nil); err != nil || !done.Lost() {
		t.Errorf("promoted all the same: %v, %v", done, err)
	}
}

// TestPromoteTwice: two promotions at once of a mirror whose origin is off report the same one, and only one places
// keys.
func TestPromoteTwice(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"handed over": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			mirror := p.mirrored(t, "http://127.0.0.1:1")
			token, err := p.HandOver(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			promote := func(ctx context.Context, m *handover.Mirror) (*handover.Promotion, error) {
				if lost {
					return m.PromoteLost(ctx, "", nil)
				}
				return m.Promote(ctx, token)
			}
			release := hold(t, mirror, mirrorsRow)
			runs := []*handover.Mirror{promoter(t, mirror), promoter(t, mirror)}
			done := make(chan *handover.Promotion, len(runs))
			for _, m := range runs {
				go func() {
					found, err := promote(t.Context(), m)
					if err != nil {
						t.Error(err)
					}
					done <- found
				}()
			}
			awaitBlocked(t, mirror, len(runs))
			release()
			if a, b := <-done, <-done; a == nil || b == nil || a.ID != b.ID {
				t.Errorf("promoted as %v and %v", a, b)
			}
			keys := 0
			for _, m := range runs {
				if _, err := os.Stat(m.KeyFile); err == nil {
					keys++
				}
			}
			if keys != 1 {
				t.Errorf("%d have placed keys", keys)
			}
		})
	}
}

// TestPromoteAgain: a promotion is repeated until another service continues the log; then it names that one.
func TestPromoteAgain(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	m := promoter(t, p.mirrored(t, "http://127.0.0.1:1"))
	token, err := p.HandOver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := m.Promote(t.Context(), token); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.PromoteLost(t.Context(), "", nil); err != nil {
		t.Error(err)
	}
	const next = "https://next.example"
	if err := handover.Fence(t.Context(), m.Pool, uuid.New(), next); err != nil {
		t.Fatal(err)
	}
	_, again := m.Promote(t.Context(), token)
	_, lost := m.PromoteLost(t.Context(), "", nil)
	for _, err := range []error{again, lost} {
		if !errors.Is(err, handover.ErrRefused) || !strings.Contains(err.Error(), next) {
			t.Errorf("promoted: %v", err)
		}
	}
}

// TestReadLargeToken: a token with many pending deliveries is read as it was written.
func TestReadLargeToken(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	token, err := p.HandOver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const size = 17 << 20
	token.Webhooks = jsontext.Value(`["` + strings.Repeat("a", size) + `"]`)
	var text bytes.Buffer
	if err := token.Write(&text); err != nil {
		t.Fatal(err)
	}
	if read, err := handover.ReadToken(&text); err != nil || len(read.Webhooks) < size {
		t.Errorf("read: %v", err)
	}
}
