package handover_test

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/handover"
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

// TestUndoAgainstPromote: of an undo and a promotion at once, one succeeds, whichever asks first.
func TestUndoAgainstPromote(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) (undo, promote func() error, origin, mirror *atomic.Pointer[func()]) {
		t.Helper()
		p := newPair(t)
		origin, mirror = new(atomic.Pointer[func()]), new(atomic.Pointer[func()])
		database := p.mirrored(t, answersLate(t, func() *pgxpool.Pool { return p.Ledger.Pool }, origin))
		token := testdb.Must(p.HandOver(t.Context()))(t)
		testdb.Exec(t, p.Ledger.Pool, `UPDATE handover SET successor_url = $1`,
			answersLate(t, func() *pgxpool.Pool { return database }, mirror))
		m := promoter(t, database)
		return func() error { return p.Undo(t.Context(), token) },
			func() error { _, err := m.Promote(t.Context(), token); return err }, origin, mirror
	}
	t.Run("undo asks first", func(t *testing.T) {
		t.Parallel()
		undo, promote, origin, mirror := setup(t)
		asked, promoted := make(chan struct{}), make(chan error, 1)
		askedNow := sync.OnceFunc(func() { close(asked) })
		origin.Store(&askedNow)
		meanwhile := func() {
			go func() { promoted <- promote() }()
			<-asked
		}
		mirror.Store(&meanwhile)
		if err := undo(); err != nil {
			t.Errorf("undone: %v", err)
		}
		if err := <-promoted; !errors.Is(err, handover.ErrRefused) {
			t.Errorf("promoted: %v", err)
		}
	})
	t.Run("promotion asks first", func(t *testing.T) {
		t.Parallel()
		undo, promote, origin, _ := setup(t)
		var undone error
		meanwhile := func() { undone = undo() }
		origin.Store(&meanwhile)
		if err := promote(); err != nil {
			t.Errorf("promoted: %v", err)
		}
		if !errors.Is(undone, handover.ErrRefused) {
			t.Errorf("undone: %v", undone)
		}
	})
}
