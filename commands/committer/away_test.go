package committer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/novel"
	"novelgate/commands/committer"
	"novelgate/internal/testdb"
)

// outage is a replica with one lane whose connections have faults and that gives up soon.
func outage(t *testing.T, options ...func(*committer.Config)) (*faults, *replica, string) {
	t.Helper()
	url := testdb.New(t)
	faults, pool := newFaultyPool(t, url, 1)
	options = append([]func(*committer.Config){oneLane, timeout(shortly)}, options...)
	return faults, newReplica(t, url, append(options, func(c *committer.Config) { c.Pool = pool })...), url
}

const (
	shortly = 2 * time.Second  // a committer's time-out
	late    = 30 * time.Second // when an answer is late on a busy machine, but has not waited for anything else
)

// within submits a command and fails the test when its answer is late.
func (r *replica) within(t *testing.T, command any) answer {
	t.Helper()
	start := time.Now()
	a := r.submit(context.Background(), command)
	if took := time.Since(start); took > late {
		t.Errorf("the answer took %s", took)
	}
	return a
}

func TestConnectionRefused(t *testing.T) {
	t.Parallel()
	faults, r, url := outage(t)
	p := newPartner()
	if a := r.within(t, p.post("a", "Title")); a.err != nil {
		t.Fatal(a)
	}
	faults.refuse(true)
	if a := r.within(t, p.post("b", "Title")); !errors.Is(a.err, committer.ErrUnavailable) {
		t.Errorf("away: %v", a)
	}
	faults.refuse(false)
	if a := r.within(t, p.post("b", "Title")); a.String() != "post" {
		t.Errorf("back: %v", a)
	}
	checkTruth(t, direct(t, url))
}

// TestSilence lets the server stop answering at different moments.
func TestSilence(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		silent func(request) bool
		want   error
	}{
		"from the start": {func(request) bool { return true }, committer.ErrUnavailable},
		"on the append":  {appends, committer.ErrOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults, r, url := outage(t)
			p := newPartner()
			if a := r.within(t, p.post("a", "Title")); a.err != nil {
				t.Fatal(a)
			}
			faults.set(func(r request) action {
				if tc.silent(r) {
					return swallow
				}
				return forward
			})
			if a := r.within(t, p.novel("n", "New title", novel.Fields{})); !errors.Is(a.err, tc.want) {
				t.Errorf("away: %v, want %v", a, tc.want)
			}
			faults.set(func(request) action { return forward })
			if a := r.within(t, p.novel("n", "New title", novel.Fields{})); a.String() != "created" {
				t.Errorf("back: %v", a)
			}
			checkTruth(t, direct(t, url))
			// Too few may be granted after an unknown outcome, never too many.
			if used := r.used(); used != 2 && (used != 3 || !errors.Is(tc.want, committer.ErrOutcomeUnknown)) {
				t.Errorf("%d creations were charged for two novels", used)
			}
		})
	}
}

// TestPromptRecovery looks whether a silence that has met every connection of the pool is over when it is over.
func TestPromptRecovery(t *testing.T) {
	t.Parallel()
	faults, r, _ := outage(t)
	p := newPartner()
	fill(t, r.pool)
	faults.set(func(request) action { return swallow })
	for range r.pool.Config().MaxConns + 1 {
		if a := r.within(t, p.post("a", "Title")); !errors.Is(a.err, committer.ErrUnavailable) {
			t.Errorf("away: %v", a)
		}
	}
	faults.set(func(request) action { return forward })
	if a := r.within(t, p.post("a", "Title")); a.String() != "post" {
		t.Errorf("back: %v", a)
	}
}

// TestCommittedInSilence lets the server carry out a transaction and then stay silent until the committer gives up.
func TestCommittedInSilence(t *testing.T) {
	t.Parallel()
	faults, r, url := outage(t)
	p := newPartner()
	if a := r.within(t, p.post("a", "Title")); a.err != nil {
		t.Fatal(a)
	}
	silent := false
	faults.set(func(r request) action {
		switch {
		case silent:
			return swallow
		case r.appends:
			silent = true
			return cutAfter
		default:
			return forward
		}
	})
	if a := r.within(t, p.novel("n", "New title", novel.Fields{})); !errors.Is(a.err, committer.ErrOutcomeUnknown) {
		t.Errorf("away: %v", a)
	}
	faults.set(func(request) action { return forward })
	if a := r.within(t, p.novel("n", "New title", novel.Fields{})); a.String() != "updated replayed" {
		t.Errorf("back: %v", a)
	}
	checkTruth(t, direct(t, url))
	if used := r.used(); used != 2 {
		t.Errorf("%d creations were charged for two novels", used)
	}
}

// TestLostCommitInLockedPath loses the answer to the COMMIT of an explicit transaction, and to what comes before it.
func TestLostCommitInLockedPath(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		a       action
		matches func(request) bool
	}{
		"append cut off before": {cutBefore, appends}, "append cut off after": {cutAfter, appends},
		"commit cut off before": {cutBefore, commits}, "commit cut off after": {cutAfter, commits},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults, r, url := outage(t, timeout(patience))
			pool := direct(t, url)
			p := newPartner()
			conflict(t, pool, 1)
			attempts, cut := 0, false
			faults.set(func(r request) action {
				if r.appends {
					attempts++
				}
				if cut || attempts < 2 || !tc.matches(r) {
					return forward
				}
				cut = true
				return tc.a
			})
			if a := r.submit(t.Context(), p.novel("n", "Title", novel.Fields{})); a.String() != "created" || !cut {
				t.Errorf("answer: %v, cut off: %v", a, cut)
			}
			checkTruth(t, pool)
			if used := r.used(); used != 1 {
				t.Errorf("%d creations were charged", used)
			}
		})
	}
}

// TestTerminatedConnections ends all connections of the pool, as a restart of the server does.
func TestTerminatedConnections(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	r := newReplica(t, url, func(c *committer.Config) { c.Lanes = 6 })
	p := newPartner()
	for round, key := range []string{"a", "b", "c"} {
		fill(t, r.pool)
		var ended int
		err := direct(t, url).QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'novelgate-append'`).Scan(&ended)
		if err != nil || ended < 7 {
			t.Fatalf("round %d: ended %d connections: %v", round, ended, err)
		}
		if a := r.within(t, p.post(key, "Title")); a.String() != "post" {
			t.Errorf("round %d: %v", round, a)
		}
	}
}

// fill makes a pool open all of its connections.
func fill(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	conns := make([]*pgxpool.Conn, pool.Config().MaxConns)
	for i := range conns {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = conn
	}
	for _, conn := range conns {
		conn.Release()
	}
}

// TestLimiterAway lets the limiter of creations fail or hang: commands that create nothing do not notice.
func TestLimiterAway(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*purse){
		"fails": func(p *purse) { p.err = errors.New("limiter is away") },
		"hangs": func(p *purse) { p.hangs = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := testdb.New(t)
			r := newReplica(t, url, oneLane, timeout(10*time.Second))
			p := newPartner()
			if a := r.submit(t.Context(), p.post("warm", "Title")); a.err != nil {
				t.Fatal(a)
			}
			answers := r.togetherThen(t, func() { spoil(r.permits) },
				p.post("a", "Title"), p.novel("n", "New", novel.Fields{}), p.novel("u", "Title", novel.Fields{}),
				newPartner().post("x", "Newer"))
			for i, want := range []bool{true, false, true, false} {
				if err := answers[i].err; (err == nil) != want || err != nil && !errors.Is(err, committer.ErrUnavailable) {
					t.Errorf("command %d: %v", i, answers[i])
				}
			}
			checkTruth(t, direct(t, url))
		})
	}
}
