package handover_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/handover"
	"novelgate/events/ledger"
	"novelgate/events/ledger/audit"
	"novelgate/events/ledger/ledgertest"
	"novelgate/internal/testdb"
)

// pair is an origin, and a mirror that has all of its events.
type pair struct {
	*ledgertest.Ledger
	*handover.Origin

	server   *httptest.Server
	away     atomic.Bool                          // the mirror does not answer
	other    atomic.Bool                          // another mirror answers
	standby  atomic.Bool                          // a service on a standby of the mirror's database answers commands
	behind   atomic.Bool                          // such a service publishes
	late     atomic.Bool                          // the mirror does not have the final checkpoint
	checked  atomic.Pointer[func()]               // called when the mirror is asked for a checkpoint
	promoted atomic.Pointer[[]handover.Promotion] // what the mirror publishes
	follows  atomic.Pointer[string]               // URL of the service that the mirror follows; nil for an unknown one
}

// mirrorLog is the id of the mirror's log.
var mirrorLog = uuid.MustParse("01900000-0000-7000-8000-000000000002")

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{Ledger: ledgertest.New(t)}
	p.Append(5)
	p.Sign()
	old := p.Latest().Note
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/ledger/")
		var answer []byte
		var err error
		switch {
		case p.away.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case r.Method == http.MethodPost && p.standby.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusMisdirectedRequest)
			problem := map[string]string{"code": "misdirected"}
			if url := p.follows.Load(); url != nil {
				problem["origin"] = *url
			}
			_ = json.MarshalWrite(w, problem) // a failure shows in the client
			return
		case path == "checkpoint" && p.late.Load():
			answer = old
		case path == "checkpoint":
			answer, err = audit.NewDatabase(p.Ledger.Pool).Checkpoint(r.Context())
		case path == "origins":
			if r.Header.Get("Cache-Control") != "no-cache" {
				t.Errorf("a cache may answer: %v", r.Header)
			}
			published := handover.Published{Log: mirrorLog, Standby: p.behind.Load()}
			if p.other.Load() {
				published.Log = uuid.New()
			}
			if list := p.promoted.Load(); list != nil {
				published.Promotions = *list
			}
			answer, err = json.Marshal(published)
		default:
			var tile tlog.Tile
			if tile, err = tlog.ParseTilePath(strings.Replace(path, "tile/", "tile/8/", 1)); err == nil {
				answer, err = audit.NewDatabase(p.Ledger.Pool).Tile(r.Context(), tile)
			}
		}
		switch {
		case errors.Is(err, ledger.ErrNotFound):
			w.WriteHeader(http.StatusNotFound)
		case err != nil:
			t.Error(r.URL.Path, err)
		}
		_, _ = w.Write(answer)
		if called := p.checked.Load(); called != nil && path == "checkpoint" {
			(*called)()
		}
	}))
	t.Cleanup(p.server.Close)
	p.Origin = p.operator()
	return p
}

// operator returns another run of the command.
func (p *pair) operator() *handover.Origin {
	key, memory := p.Files()
	o := &handover.Origin{
		Pool: p.Ledger.Pool, KeyFile: key, Memory: memory, Successor: p.server.URL, Client: p.server.Client(),
		Wait: testdb.SettleTimeout, Report: func(string) {},
	}
	o.SetAskTimeout(testdb.SettleTimeout)
	return o
}

func (p *pair) fences(t *testing.T) string {
	t.Helper()
	return testdb.Value[string](t, p.Ledger.Pool, `SELECT coalesce(string_agg(concat(
		CASE WHEN replaced THEN 'replaced' WHEN given_at IS NULL THEN 'fenced' ELSE 'given' END), ','), 'none') FROM handover`)
}

// TestHandoverAlone: while a handover waits for its mirror, it is neither undone nor run a second time.
func TestHandoverAlone(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.Append(3)
	p.late.Store(true)
	ended := make(chan error, 1)
	go func() {
		_, err := p.HandOver(t.Context())
		ended <- err
	}()
	testdb.Eventually(t, "the database is fenced", func() bool { return p.fences(t) == "fenced" })
	if err := p.operator().Undo(t.Context(), nil); !errors.Is(err, handover.ErrRefused) {
		t.Errorf("undone meanwhile: %v", err)
	}
	again := p.operator()
	again.Wait = time.Second
	if _, err := again.HandOver(t.Context()); !errors.Is(err, handover.ErrRefused) {
		t.Errorf("run twice: %v", err)
	}
	p.late.Store(false)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := p.fences(t); got != "given" {
		t.Errorf("afterwards: %s", got)
	}
}

// TestHandoverImports: an import that begins after the first look is not left behind without a word.
func TestHandoverImports(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	begin := func() {
		if _, err := p.Ledger.Pool.Exec(t.Context(), `INSERT INTO imports
			(import_id, integration_id, idempotency_key, key_id, state)
			VALUES (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'open')`); err != nil {
			t.Error(err)
		}
	}
	p.checked.Store(&begin)
	if _, err := p.HandOver(t.Context()); !errors.Is(err, handover.ErrRefused) ||
		!strings.Contains(err.Error(), "bulk imports") {
		t.Errorf("handed over with an open import: %v", err)
	}
	if got := p.fences(t); got != "none" {
		t.Errorf("afterwards: %s", got)
	}
}

// TestHandoverAfterTransactions: a handover waits for a transaction that runs, while commands are accepted.
func TestHandoverAfterTransactions(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	fenced := false
	p.Report = func(text string) { fenced = fenced || strings.Contains(text, "refused from now on") }
	running := testdb.Begin(t, testdb.Connect(t, testdb.New(t)))
	testdb.Exec(t, running, `CREATE TABLE written ()`)
	p.Wait = 300 * time.Millisecond
	if _, err := p.HandOver(t.Context()); !errors.Is(err, handover.ErrRefused) ||
		!strings.Contains(err.Error(), "a transaction in the cluster") {
		t.Errorf("while a transaction runs: %v", err)
	}
	if fenced {
		t.Error("commands were refused meanwhile")
	}
	p.Wait = testdb.SettleTimeout
	ended := make(chan error, 1)
	go func() {
		_, err := p.HandOver(t.Context())
		ended <- err
	}()
	if err := running.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("after it: %v", err)
	}
}

// elsewhere is a promotion that the origin does not know.
var elsewhere = []handover.Promotion{{
	ID: uuid.MustParse("01900000-0000-7000-8000-000000000001"), Origin: ledgertest.Origin,
	NextOrigin: ledgertest.Origin + "/2", Entries: 5, KnownEntries: 5, PromotedAt: time.Now(),
}}

// TestHandoverAgain: a complete handover is repeated or undone only if the mirror says that it was not promoted.
func TestHandoverAgain(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	token, err := p.HandOver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := func(wanted error) {
		t.Helper()
		if _, err := p.HandOver(t.Context()); !errors.Is(err, wanted) {
			t.Errorf("again: %v, want %v", err, wanted)
		}
		if err := p.Undo(t.Context(), token); !errors.Is(err, wanted) {
			t.Errorf("undone: %v, want %v", err, wanted)
		}
		if got := p.fences(t); got != "given" {
			t.Errorf("afterwards: %s", got)
		}
	}
	if token.Log != mirrorLog {
		t.Errorf("the token is for the mirror with the log %v", token.Log)
	}
	p.other.Store(true)
	want(handover.ErrRefused)
	p.other.Store(false)
	p.behind.Store(true) // it may not have the promotion yet
	want(handover.ErrRefused)
	p.standby.Store(true)
	want(handover.ErrRefused)
	p.standby.Store(false)
	p.behind.Store(false)
	p.away.Store(true)
	want(handover.ErrRefused)
	p.Force = true
	if again, err := p.HandOver(t.Context()); err != nil || again.Promotion != token.Promotion {
		t.Errorf("again with force: %v", err)
	}
	p.away.Store(false)
	p.promoted.Store(&elsewhere)
	want(handover.ErrReplaced)
	p.promoted.Store(nil)
	p.away.Store(true)
	if err := p.Undo(t.Context(), token); err != nil {
		t.Error(err)
	}
	if got := p.fences(t); got != "none" {
		t.Errorf("afterwards: %s", got)
	}
}

// TestHandoverInterrupted: an interrupted handover lifts the fence, and does not blame the mirror.
func TestHandoverInterrupted(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.Append(3)
	p.late.Store(true)
	ctx, interrupt := context.WithCancel(t.Context())
	p.Report = func(text string) {
		if strings.Contains(text, "are signed") {
			interrupt()
		}
	}
	_, err := p.HandOver(ctx)
	if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "the mirror has") {
		t.Errorf("interrupted: %v", err)
	}
	if got := p.fences(t); got != "none" {
		t.Errorf("afterwards: %s", got)
	}
}

// TestUndoAsksLast: a mirror that is promoted while an undo waits for locks keeps the log.
func TestUndoAsksLast(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	token, err := p.HandOver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	release := hold(t, p.Ledger.Pool, vacuums)
	ended := make(chan error, 1)
	go func() { ended <- p.Undo(t.Context(), token) }()
	awaitBlocked(t, p.Ledger.Pool, 1)
	p.promoted.Store(&elsewhere)
	release()
	if err := <-ended; !errors.Is(err, handover.ErrReplaced) {
		t.Errorf("undone: %v", err)
	}
	if got := p.fences(t); got != "given" {
		t.Errorf("afterwards: %s", got)
	}
	if _, retired, err := ledger.ReadRetirement(p.Memory); !retired || err != nil {
		t.Errorf("the memory can sign: %v", err)
	}
}

// TestHandoverToAnother: a handover is not complete while another mirror than the one at its beginning answers.
func TestHandoverToAnother(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.Report = func(text string) { p.other.Store(p.other.Load() || strings.Contains(text, "are signed")) }
	if _, err := p.HandOver(t.Context()); !errors.Is(err, handover.ErrRefused) ||
		!strings.Contains(err.Error(), "another mirror answers") {
		t.Errorf("handed over: %v", err)
	}
	if got := p.fences(t); got != "none" {
		t.Errorf("afterwards: %s", got)
	}
}

// TestHandoverToMirrorOfMirror: a mirror that follows another service, or one on a standby of the origin's database, is
// refused before the fence: it could not ask the origin before its promotion. The address of the origin for the mirror
// may lead nowhere here.
func TestHandoverToMirrorOfMirror(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.Report = func(text string) { t.Error(text) }
	own := testdb.Must(handover.Publish(t.Context(), p.Ledger.Pool))(t).Log
	for _, published := range []handover.Published{{Log: uuid.New()}, {Log: own, Standby: true}} {
		between := answering(t, func(*http.Request) (handover.Published, int, string) {
			return published, http.StatusMisdirectedRequest, ""
		})
		p.follows.Store(&between)
		if _, err := p.HandOver(t.Context()); !errors.Is(err, handover.ErrRefused) ||
			!strings.Contains(err.Error(), "follows "+between) {
			t.Errorf("handed over: %v", err)
		}
	}
	p.Report = func(string) {}
	for _, url := range []string{"http://127.0.0.1:1", p.publish(t)} {
		p.follows.Store(&url)
		token, err := p.HandOver(t.Context())
		if err == nil {
			err = p.Undo(t.Context(), token)
		}
		if err != nil {
			t.Errorf("to a mirror that follows %s: %v", url, err)
		}
	}
}

// TestHandoverToPromoted: a mirror that is promoted while a handover waits for it has replaced the origin.
func TestHandoverToPromoted(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.Append(3)
	p.late.Store(true)
	ended := make(chan error, 1)
	go func() {
		_, err := p.HandOver(t.Context())
		ended <- err
	}()
	testdb.Eventually(t, "the database is fenced", func() bool { return p.fences(t) == "fenced" })
	p.promoted.Store(&elsewhere)
	p.late.Store(false)
	if err := <-ended; !errors.Is(err, handover.ErrReplaced) {
		t.Errorf("handed over: %v", err)
	}
	if got := p.fences(t); got != "replaced" {
		t.Errorf("afterwards: %s", got)
	}
	if by := testdb.Value[uuid.UUID](t, p.Ledger.Pool, `SELECT promotion_id FROM handover`); by != elsewhere[0].ID {
		t.Errorf("replaced by %v, want %v", by, elsewhere[0].ID)
	}
}
