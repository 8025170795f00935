package handover_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/handover"
	"novelgate/events/ledger"
	"novelgate/events/ledger/ledgertest"
	"novelgate/internal/testdb"
)

// answersLate serves what a database publishes, and answers a command accordingly. It calls a function, once, between
// reading what it publishes and the answer.
func answersLate(t *testing.T, db func() *pgxpool.Pool, between *atomic.Pointer[func()]) (url string) {
	t.Helper()
	return answering(t, func(r *http.Request) (handover.Published, int, string) {
		published, err := handover.Publish(r.Context(), db())
		role, failed := handover.ReadRole(r.Context(), db())
		if err := errors.Join(err, failed); err != nil {
			t.Errorf("%s: %v", r.URL, err)
		}
		status := http.StatusUnauthorized
		if role.Mirrors != "" {
			status = http.StatusMisdirectedRequest
		}
		if r.Method == http.MethodGet {
			if do := between.Swap(nil); do != nil {
				(*do)()
			}
		}
		return published, status, ""
	})
}

// contest is an undo and a promotion of one handover.
type contest struct {
	*pair
	token          *handover.Token
	promoter       *handover.Mirror
	origin, mirror atomic.Pointer[func()] // called once, between what a service has read and its answer
}

func newContest(t *testing.T) *contest {
	t.Helper()
	c := &contest{pair: newPair(t)}
	database := c.mirrored(t, answersLate(t, func() *pgxpool.Pool { return c.Ledger.Pool }, &c.origin))
	c.token = testdb.Must(c.HandOver(t.Context()))(t)
	testdb.Exec(t, c.Ledger.Pool, `UPDATE handover SET successor_url = $1`,
		answersLate(t, func() *pgxpool.Pool { return database }, &c.mirror))
	c.promoter = promoter(t, database)
	return c
}

func (c *contest) promote(t *testing.T) error {
	t.Helper()
	_, err := c.promoter.Promote(t.Context(), c.token)
	return err
}

// TestUndoAgainstPromote: of an undo and a promotion at once, one succeeds, whichever asks first.
func TestUndoAgainstPromote(t *testing.T) {
	t.Parallel()
	undoFirst := func(t *testing.T, c *contest, operator *handover.Origin) {
		t.Helper()
		asked, promoted := make(chan struct{}), make(chan error, 1)
		askedNow := sync.OnceFunc(func() { close(asked) })
		c.origin.Store(&askedNow)
		meanwhile := func() {
			go func() { promoted <- c.promote(t) }()
			<-asked
		}
		c.mirror.Store(&meanwhile)
		if err := operator.Undo(t.Context(), c.token); err != nil {
			t.Errorf("undone: %v", err)
		}
		if err := <-promoted; !errors.Is(err, handover.ErrRefused) {
			t.Errorf("promoted: %v", err)
		}
	}
	t.Run("undo asks first", func(t *testing.T) {
		t.Parallel()
		c := newContest(t)
		undoFirst(t, c, c.Origin)
	})
	t.Run("undo goes through a pooler", func(t *testing.T) {
		t.Parallel()
		c := newContest(t)
		config := c.Ledger.Pool.Config().Copy()
		config.ConnConfig.Tracer = pooler{}
		operator := *c.Origin
		operator.Pool = testdb.Must(pgxpool.NewWithConfig(t.Context(), config))(t)
		t.Cleanup(operator.Pool.Close)
		undoFirst(t, c, &operator)
	})
	t.Run("promotion asks first", func(t *testing.T) {
		t.Parallel()
		c := newContest(t)
		var undone error
		meanwhile := func() { undone = c.Undo(t.Context(), c.token) }
		c.origin.Store(&meanwhile)
		if err := c.promote(t); err != nil {
			t.Errorf("promoted: %v", err)
		}
		if !errors.Is(undone, handover.ErrRefused) {
			t.Errorf("undone: %v", undone)
		}
	})
	t.Run("undo loses its lock", func(t *testing.T) {
		t.Parallel()
		c := newContest(t)
		var promoted error
		meanwhile := func() {
			testdb.Exec(t, c.Ledger.Pool, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE `+handoverLock)
			awaitUnlocked(t, c.Ledger.Pool)
			promoted = c.promote(t)
		}
		c.mirror.Store(&meanwhile)
		if err := c.Undo(t.Context(), c.token); err == nil || promoted != nil {
			t.Errorf("undone: %v; promoted: %v", err, promoted)
		}
		if _, retired, err := ledger.ReadRetirement(c.Memory); !retired || err != nil {
			t.Errorf("the memory of the origin can sign: %v", err)
		}
	})
	t.Run("undo is killed in its COMMIT", func(t *testing.T) {
		t.Parallel()
		c := newContest(t)
		awaitHeld, release := holdCommit(t, c.Ledger.Pool, `DELETE`)
		testdb.Exec(t, c.Ledger.Pool, `ALTER FUNCTION hold() SET lock_timeout = 0`) // until the promotion asks
		operator := *c.Origin
		sockets := &sockets{}
		operator.Pool = sockets.pool(t, c.Ledger.Pool)
		go func() { _ = operator.Undo(t.Context(), c.token) }() // fails
		awaitHeld()
		sockets.cut(true, func() {})
		promoted := make(chan error, 1)
		go func() { promoted <- c.promote(t) }()
		asked := make(chan struct{})
		askedNow := sync.OnceFunc(func() { close(asked) })
		c.origin.Store(&askedNow)
		<-asked
		release()
		if err := <-promoted; !errors.Is(err, handover.ErrRefused) || c.fences(t) != "none" {
			t.Errorf("promoted: %v; the origin: %s", err, c.fences(t))
		}
	})
}

// pooler is a pgx.QueryTracer that makes a connection lose the lock that it has taken outside of a transaction: a
// pooler in transaction mode runs the next transaction in another session.
type pooler struct{}

type lockTaken struct{} // key in the context of a query

func (pooler) TraceQueryStart(ctx context.Context, _ *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, lockTaken{}, strings.Contains(query.SQL, "pg_advisory_lock("))
}

func (pooler) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryEndData) {
	if taken, _ := ctx.Value(lockTaken{}).(bool); taken {
		_, _ = conn.Exec(ctx, `SELECT pg_advisory_unlock_all()`) // a failure leaves the lock, and the test fails
	}
}

// holdCommit makes the COMMIT of a change of the fence wait, until release is called or the test ends. change is INSERT
// or DELETE. awaitHeld waits until a COMMIT waits.
func holdCommit(t *testing.T, pool *pgxpool.Pool, change string) (awaitHeld, release func()) {
	t.Helper()
	testdb.Exec(t, pool, `CREATE TABLE hold (); CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql
		AS 'BEGIN LOCK TABLE hold IN EXCLUSIVE MODE; RETURN NULL; END'`)
	testdb.Exec(t, pool, `CREATE CONSTRAINT TRIGGER hold AFTER `+change+` ON handover DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION hold()`)
	holder := testdb.Begin(t, pool)
	testdb.Exec(t, holder, `LOCK TABLE hold IN SHARE MODE`) // without a transaction id, for which others would wait
	awaitHeld = func() {
		testdb.Eventually(t, "the COMMIT waits", func() bool {
			return testdb.Value[int](t, pool, `SELECT count(*)::int FROM pg_locks WHERE relation = 'hold'::regclass
				AND NOT granted`) == 1
		})
	}
	release = func() {
		if err := holder.Commit(t.Context()); err != nil {
			t.Error(err)
		}
	}
	return awaitHeld, release
}

// handoverLock is the condition on pg_locks for the lock of a handover in this database.
const handoverLock = `locktype = 'advisory' AND granted AND mode = 'ExclusiveLock'
	AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

func awaitUnlocked(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	testdb.Eventually(t, "the lock is released", func() bool {
		return testdb.Value[int](t, pool, `SELECT count(*)::int FROM pg_locks WHERE `+handoverLock) == 0
	})
}

// sockets are the connections of a pool. Closing them is what the end of a killed process does.
type sockets struct {
	mu     sync.Mutex
	closed bool
	open   []net.Conn
}

// pool returns a pool for the database of another one.
func (s *sockets) pool(t *testing.T, of *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	config := of.Config().Copy()
	config.ConnConfig.ConnectTimeout = time.Minute
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil && s.closed {
			err = errors.Join(net.ErrClosed, conn.Close())
		}
		s.open = append(s.open, conn)
		return conn, err
	}
	pool := testdb.Must(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(pool.Close)
	return pool
}

// cut closes the connections and calls meanwhile before others are opened. With end no others are opened.
func (s *sockets) cut(end bool, meanwhile func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = end
	for _, conn := range s.open {
		_ = conn.Close()
	}
	meanwhile()
}

// TestHandoverLosesItsLock: a handover that fails after its connection was lost lifts its fence.
func TestHandoverLosesItsLock(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.Append(1)
	p.late.Store(true)
	refused := false
	p.Report = func(text string) {
		if text == "Commands are refused from now on." {
			testdb.Exec(t, p.Ledger.Pool, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE `+handoverLock)
			awaitUnlocked(t, p.Ledger.Pool)
			p.Wait, refused = 100*time.Millisecond, true // for the mirror
		}
	}
	if _, err := p.HandOver(t.Context()); err == nil || !refused || p.fences(t) != "none" {
		t.Errorf("%v; commands were refused: %t; the origin: %s", err, refused, p.fences(t))
	}
}

// TestHandoverInterruptedInItsCommit: whether or not the fence was stored, it is lifted.
func TestHandoverInterruptedInItsCommit(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	awaitHeld, _ := holdCommit(t, p.Ledger.Pool, `INSERT`)
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := p.HandOver(ctx)
		ended <- err
	}()
	awaitHeld()
	interrupt()
	if err := <-ended; err == nil || p.fences(t) != "none" {
		t.Errorf("%v; the origin: %s", err, p.fences(t))
	}
}

// TestUndoLosesItsConnection: an undo succeeds whose COMMIT does, although the answer is lost.
func TestUndoLosesItsConnection(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	token := testdb.Must(p.HandOver(t.Context()))(t)
	awaitHeld, release := holdCommit(t, p.Ledger.Pool, `DELETE`)
	testdb.Exec(t, p.Ledger.Pool, `ALTER FUNCTION hold() SET lock_timeout = 0`) // until the connections are cut
	sockets := &sockets{}
	operator := p.operator()
	operator.Pool = sockets.pool(t, p.Ledger.Pool)
	ended := make(chan error, 1)
	go func() { ended <- operator.Undo(t.Context(), token) }()
	awaitHeld()
	sockets.cut(false, func() { // until then the COMMIT cannot be cancelled
		release()
		testdb.Eventually(t, "the fence is lifted", func() bool { return p.fences(t) == "none" })
	})
	if err := <-ended; err != nil || p.fences(t) != "none" {
		t.Errorf("undone: %v; the origin: %s", err, p.fences(t))
	}
}

// TestUndoWithoutMemory: an undo that cannot reinstate the memory is refused. The retired memory would make the service
// fence itself again, as replaced.
func TestUndoWithoutMemory(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	token := testdb.Must(p.HandOver(t.Context()))(t)
	elsewhere := p.operator()
	_, another := ledgertest.New(t).Files()
	for _, elsewhere.Memory = range []string{t.TempDir(), another} {
		if err := elsewhere.Undo(t.Context(), token); !errors.Is(err, handover.ErrRefused) || p.fences(t) != "given" {
			t.Errorf("undone: %v; the origin: %s", err, p.fences(t))
		}
	}
	if err := p.Undo(t.Context(), token); err != nil || p.fences(t) != "none" {
		t.Errorf("undone: %v; the origin: %s", err, p.fences(t))
	}
}

// TestUndoAfterAFailover: a failover to an asynchronous standby has lost that the handover was complete. The retired
// memory and the token still show it.
func TestUndoAfterAFailover(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	token := testdb.Must(p.HandOver(t.Context()))(t)
	failOver := func() { p.Exec(`UPDATE handover SET given_at = NULL`) }
	failOver()
	elsewhere := p.operator()
	elsewhere.Memory = t.TempDir()
	for what, undo := range map[string]func() error{
		"without the token":  func() error { return p.Undo(t.Context(), nil) },
		"without the memory": func() error { return elsewhere.Undo(t.Context(), token) },
		"without the mirror": func() error {
			p.away.Store(true)
			defer p.away.Store(false)
			return p.Undo(t.Context(), token)
		},
	} {
		if err := undo(); !errors.Is(err, handover.ErrRefused) || p.fences(t) != "fenced" {
			t.Errorf("undone %s: %v; the origin: %s", what, err, p.fences(t))
		}
	}
	if _, err := p.HandOver(t.Context()); err != nil || p.fences(t) != "given" {
		t.Errorf("handed over again: %v; the origin: %s", err, p.fences(t))
	}
	failOver()
	if err := p.Undo(t.Context(), token); err != nil || p.fences(t) != "none" {
		t.Errorf("undone: %v; the origin: %s", err, p.fences(t))
	}
	if _, retired, err := ledger.ReadRetirement(p.Memory); retired || err != nil {
		t.Errorf("the memory is retired: %v", err)
	}
}

// TestHandoverAgainWithoutKeys: a complete handover whose key file was deleted does not replace its file, which has the
// only keys then.
func TestHandoverAgainWithoutKeys(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	testdb.Must(p.HandOver(t.Context()))(t)
	if err := os.Remove(p.KeyFile); err != nil {
		t.Fatal(err)
	}
	p.Claim = func(uuid.UUID) error { t.Error("the file is replaced"); return nil }
	if _, err := p.HandOver(t.Context()); !errors.Is(err, handover.ErrRefused) {
		t.Errorf("handed over again: %v", err)
	}
}

// TestUndoWithoutKeys: if the key file was deleted after the handover, an undo writes it again. The file of the
// handover has the only keys then, and is deleted.
func TestUndoWithoutKeys(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	keys := testdb.Must(os.ReadFile(p.KeyFile))(t)
	token := testdb.Must(p.HandOver(t.Context()))(t)
	if err := os.Remove(p.KeyFile); err != nil {
		t.Fatal(err)
	}
	elsewhere := p.operator()
	elsewhere.Memory = t.TempDir()
	if err := elsewhere.Undo(t.Context(), token); !errors.Is(err, handover.ErrRefused) {
		t.Errorf("undone without the memory: %v", err)
	}
	if _, err := os.Stat(p.KeyFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused undo has written keys: %v", err)
	}
	for range 2 {
		if err := p.Undo(t.Context(), token); err != nil {
			t.Errorf("undone: %v", err)
		}
	}
	if got, err := os.ReadFile(p.KeyFile); err != nil || !bytes.Equal(got, keys) {
		t.Errorf("the key file is not the former one: %v", err)
	}
}

// TestUndoAgain: an undo that was killed after its COMMIT is repeated, so that its file is deleted. It is
// refused where the memory is retired, as when the database was set back, or another one, and at a promoted mirror.
func TestUndoAgain(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	backup := p.Backup()
	p.Origin.Pool = p.Ledger.Pool // Backup has opened another one
	token := testdb.Must(p.HandOver(t.Context()))(t)
	for _, l := range []*ledgertest.Ledger{backup, ledgertest.New(t)} {
		other := p.operator()
		other.Pool = l.Pool
		other.KeyFile, other.Memory = l.Files()
		if err := other.Undo(t.Context(), token); !errors.Is(err, handover.ErrRefused) {
			t.Errorf("undone without a fence: %v", err)
		}
	}
	if _, retired, err := ledger.ReadRetirement(p.Memory); !retired || err != nil {
		t.Errorf("the memory can sign: %v", err)
	}
	for range 2 {
		if err := p.Undo(t.Context(), token); err != nil || p.fences(t) != "none" {
			t.Errorf("undone: %v; the origin: %s", err, p.fences(t))
		}
	}
	if err := p.Undo(t.Context(), nil); !errors.Is(err, handover.ErrRefused) {
		t.Errorf("undone without a file: %v", err)
	}

	c := newContest(t)
	if err := c.promote(t); err != nil {
		t.Fatal(err)
	}
	promoted := c.operator()
	promoted.Pool, promoted.KeyFile, promoted.Memory = c.promoter.Pool, c.promoter.KeyFile, c.promoter.Memory
	if err := promoted.Undo(t.Context(), c.token); !errors.Is(err, handover.ErrRefused) {
		t.Errorf("undone at the promoted mirror: %v", err)
	}
}

// TestUndoOfIncomplete: what a killed handover has left is undone also if the mirror does not say whether it was
// promoted, unless it accepts commands.
func TestUndoOfIncomplete(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	status, code := http.StatusUnauthorized, "unauthorized"
	testdb.Exec(t, p.Ledger.Pool, `INSERT INTO handover (promotion_id, successor_url, replaced, fenced_at)
		VALUES (gen_random_uuid(), $1, false, now())`, overloaded(t, func() (int, map[string]string) {
		return status, map[string]string{"code": code}
	}))
	if err := p.Undo(t.Context(), nil); !errors.Is(err, handover.ErrRefused) || p.fences(t) != "fenced" {
		t.Errorf("undone: %v; the origin: %s", err, p.fences(t))
	}
	status, code = http.StatusMisdirectedRequest, "misdirected"
	if err := p.Undo(t.Context(), nil); err != nil || p.fences(t) != "none" {
		t.Errorf("undone: %v; the origin: %s", err, p.fences(t))
	}
}

// TestUndoOfCompletedMeanwhile: a handover that has lost its lock completes while an undo asks the mirror. It stays.
func TestUndoOfCompletedMeanwhile(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	testdb.Exec(t, p.Ledger.Pool, `INSERT INTO handover (promotion_id, successor_url, replaced, fenced_at)
		VALUES (gen_random_uuid(), $1, false, now())`, overloaded(t, func() (int, map[string]string) {
		if _, err := p.Ledger.Pool.Exec(t.Context(), `UPDATE handover SET given_at = now()`); err != nil {
			t.Error(err)
		}
		return http.StatusMisdirectedRequest, map[string]string{"code": "misdirected"}
	}))
	if err := p.Undo(t.Context(), nil); !errors.Is(err, handover.ErrRefused) || p.fences(t) != "given" {
		t.Errorf("undone: %v; the origin: %s", err, p.fences(t))
	}
}
