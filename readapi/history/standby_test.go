package history_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"novelgate/internal/database"
	"novelgate/internal/testdb"
	"novelgate/migrations"
	"novelgate/readapi/history"
)

// pair is a primary and a standby that answers reads of the history.
type pair struct {
	primary, standby *pgxpool.Pool
	standbys         *database.Standbys
	names            int
}

// newPair returns a pair whose standby counts as usable until the end of the test: on a busy machine it may miss the
// time limit of a check, and then some pages come from the primary.
func newPair(t *testing.T) *pair {
	t.Helper()
	primaryURL, standbyURL := testdb.NewPair(t, func(url string) {
		if err := migrations.Up(t.Context(), url); err != nil {
			t.Fatal(err)
		}
	})
	const lanes, maxLag = 1, time.Hour
	pools, err := database.Open(t.Context(), primaryURL, lanes, database.DefaultConnections(lanes))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pools.Close)
	p := &pair{primary: pools.General, standby: openURL(t, standbyURL)}
	p.standbys, err = database.OpenStandbys(t.Context(), standbyURL, pools, maxLag, time.Now,
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.standbys.Close)
	unwatch := testdb.Background(t, p.standbys.Watch)
	testdb.Eventually(t, "the standby is used", func() bool {
		_, _, ok := p.standbys.History()
		return ok
	})
	unwatch()
	return p
}

// posts returns new events, each of a transaction of its own.
func (p *pair) posts(n int) []row {
	rows := make([]row, n)
	for i := range rows {
		p.names++
		rows[i] = post(fmt.Sprint("key-", p.names))
	}
	return rows
}

func (p *pair) store(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	for _, r := range p.posts(n) {
		store(t, pool, r)
	}
}

// awaitReplay waits until the standby has replayed what the primary has written.
func (p *pair) awaitReplay(t *testing.T) {
	t.Helper()
	written := testdb.Value[string](t, p.primary, `SELECT pg_current_wal_insert_lsn()::text`)
	testdb.Eventually(t, "the standby has replayed "+written, func() bool {
		return testdb.Value[bool](t, p.standby, `SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn`, written)
	})
}

// wantRead reads everything in pages of ten, and compares with what the primary has settled. fromStandby is the number
// of pages that the standby answers.
func (p *pair) wantRead(t *testing.T, fromStandby int) {
	t.Helper()
	p.wantMatches(t, "", fromStandby)
}

// wantMatches does so with the events of a type; "": all.
func (p *pair) wantMatches(t *testing.T, kind string, fromStandby int) {
	t.Helper()
	const limit = 10
	before := p.answers(t)
	reader := testdb.Must(history.NewReader(t.Context(), p.primary, history.Filter{Type: kind}))(t)
	reader.UseStandbys(p.standbys, time.Minute)
	got := []string{}
	for after, more := (history.Cursor{}), true; more; {
		horizon := testdb.Must(reader.Horizon(t.Context()))(t)
		page := testdb.Must(reader.Page(t.Context(), after, horizon, limit))(t)
		for i := range page.Events {
			got = append(got, page.Events[i].Position.String()+" "+page.Events[i].ID)
		}
		after, more = page.Next, page.More
	}
	want := testdb.Values[string](t, p.primary, `SELECT concat(transaction_id, '/', position, ' ', event_id) FROM events
		WHERE transaction_id < pg_snapshot_xmin(pg_current_snapshot()) AND ($1 = '' OR event_type = $1)
		ORDER BY transaction_id, position`, kind)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if n := p.answers(t) - before; n != fromStandby {
		t.Errorf("the standby has answered %d pages, want %d", n, fromStandby)
	}
}

// answers returns how many reads the standby has answered.
func (p *pair) answers(t *testing.T) (total int) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(p.standbys)
	families := testdb.Must(registry.Gather())(t)
	for _, family := range families {
		if strings.HasPrefix(family.GetName(), "novelgate_standby_answers_total") {
			total += int(family.GetMetric()[0].GetCounter().GetValue())
		}
	}
	return total
}

// TestStandbyPages: full pages come from the standby, and no page differs from what the primary has settled.
func TestStandbyPages(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.store(t, p.primary, 35)
	p.awaitReplay(t)
	p.wantRead(t, 3)

	// A transaction is still running when later ones have committed.
	open := testdb.Begin(t, p.primary)
	if err := insert(t.Context(), open, p.posts(1)); err != nil {
		t.Fatal(err)
	}
	p.store(t, p.primary, 40)
	p.awaitReplay(t)
	p.wantRead(t, 3)
	// It commits, and the standby does not know yet.
	testdb.Exec(t, p.standby, `SELECT pg_wal_replay_pause()`)
	if err := open.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	settle(t, p.primary)
	p.wantRead(t, 3)
	testdb.Exec(t, p.standby, `SELECT pg_wal_replay_resume()`)
	p.awaitReplay(t)
	p.wantRead(t, 7)

	// Commits of the primary wait for a synchronous standby that is away, and this standby shows them.
	testdb.Exec(t, p.primary, `ALTER SYSTEM SET synchronous_standby_names = 'away'`)
	testdb.Exec(t, p.primary, `SELECT pg_reload_conf()`)
	testdb.Eventually(t, "commits wait for the standby that is away", func() bool {
		return testdb.Value[string](t, p.primary, `SHOW synchronous_standby_names`) == "away"
	})
	testdb.Exec(t, p.primary, `CHECKPOINT`) // commits wait once the checkpointer has read the setting, too
	waiting, kind := p.posts(30), "post.waiting.v1"
	for i := range waiting {
		waiting[i].kind = kind
	}
	testdb.Background(t, func(ctx context.Context) {
		if err := pgx.BeginFunc(ctx, p.primary, func(tx pgx.Tx) error { return insert(ctx, tx, waiting) }); err != nil {
			t.Error(err)
		}
	})
	testdb.Eventually(t, "the standby shows them", func() bool {
		return testdb.Value[int](t, p.standby, `SELECT count(*) FROM events`) == 106
	})
	p.wantRead(t, 7)
	p.wantMatches(t, kind, 0)
	testdb.Exec(t, p.primary, `ALTER SYSTEM RESET synchronous_standby_names`)
	testdb.Exec(t, p.primary, `SELECT pg_reload_conf()`)
	testdb.Eventually(t, "they are settled", func() bool {
		return testdb.Value[int](t, p.primary, `SELECT count(*) FROM events
			WHERE transaction_id < pg_snapshot_xmin(pg_current_snapshot())`) == 106
	})
	p.awaitReplay(t)
	p.wantRead(t, 10)
	p.wantMatches(t, kind, 2)
}

// TestPagesOfAnotherHistory: pages of a server that was promoted apart do not get out, also before it is found out.
func TestPagesOfAnotherHistory(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.store(t, p.primary, 15)
	p.awaitReplay(t)
	if !testdb.Value[bool](t, p.standby, `SELECT pg_promote(true, 60)`) {
		t.Fatal("the standby was not promoted")
	}
	p.store(t, p.standby, 40)
	p.store(t, p.primary, 30)
	p.wantRead(t, 1)
	p.store(t, p.primary, 30) // the page before has events that both have, and others
	p.wantRead(t, 1)
}

// TestReadingWithoutAStandby: while the standby does not answer, the primary does.
func TestReadingWithoutAStandby(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.store(t, p.primary, 35)
	p.awaitReplay(t)
	p.standbys.Close()
	p.wantRead(t, 0)
}
