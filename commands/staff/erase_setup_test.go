package staff_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/events/ledger"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// live runs on a database what a service runs: the projections and the sealer.
type live struct {
	*staff.Staff
	name          staff.AuthorName
	stopSealing   func()
	stopFollowing func()
}

// planted is what is personal about the author of a live, apart from the identifier.
const planted = "PlantedWords|PlantedName|PlantedMember"

func setupLive(t testing.TB) *live {
	t.Helper()
	l := &live{Staff: setup(t)}
	l.follow(t)
	l.seal(t)
	l.name = staff.AuthorName{IntegrationID: newIntegration(t, l.Staff, "Fan Site"), ExternalUUID: "planted/uuid"}
	return l
}

// EraseAuthor erases an author for as long as it takes: transactions of other tests on the server may hold the log up.
// The counts are those of all attempts.
func (l *live) EraseAuthor(ctx context.Context, name staff.AuthorName, reason string) (staff.Erasure, error) {
	var before staff.Erasure
	for deadline := time.Now().Add(testdb.UntilSettled); ; {
		done, err := l.Staff.EraseAuthor(ctx, name, reason)
		done.Comments += before.Comments
		done.Decisions += before.Decisions
		if !errors.Is(err, staff.ErrNotSettled) || ctx.Err() != nil || time.Now().After(deadline) {
			return done, err
		}
		before = done
	}
}

func (l *live) follow(t testing.TB) {
	t.Helper()
	runner, err := projections.NewRunner(projections.Config{Pool: l.Pool, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	l.stopFollowing = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run projections: %v", err)
		}
	})
	t.Cleanup(l.stopFollowing)
	select {
	case <-runner.Running(): // from here on every projection has a checkpoint
	case <-time.After(time.Minute):
		t.Fatal("the projections do not run")
	}
}

func (l *live) seal(t testing.TB) {
	t.Helper()
	pool, err := database.OpenLedger(t.Context(), l.Pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := ledger.NewSealer(ledger.SealerConfig{
		Pool: pool, Pace: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { sealer.Run(ctx); close(ended) }()
	l.stopSealing = func() { cancel(); <-ended; pool.Close() }
	t.Cleanup(l.stopSealing)
}

// comments are imports of comments of an author with planted words.
func (l *live) comments(name staff.AuthorName, prefix string, n int) []events.Recorded {
	list := make([]events.Recorded, n)
	for i := range list {
		list[i] = comment(name.IntegrationID, name.ExternalUUID, fmt.Sprintf("%s-%d", prefix, i))
		e, _ := list[i].Event.(events.PostImported)
		e.Comment.Username, e.Comment.Content = "PlantedName", "PlantedWords"
		list[i].Event = e
		list[i].Salt = uuid.NullUUID{UUID: uuid.New(), Valid: true}
	}
	return list
}

// caughtUp waits until every projection has applied, and the ledger sealed, every event.
func (l *live) caughtUp(t testing.TB) {
	t.Helper()
	const sql = `SELECT NOT EXISTS (
		SELECT FROM (SELECT transaction_id, position FROM projections UNION ALL SELECT transaction_id, position
		    FROM ledger_state) AS c
		WHERE (c.transaction_id, c.position) < (SELECT e.transaction_id, e.position FROM events AS e ORDER BY 1 DESC, 2 DESC LIMIT 1))`
	for deadline := time.Now().Add(testdb.UntilSettled); ; time.Sleep(2 * time.Millisecond) {
		var yes bool
		if err := l.Pool.QueryRow(context.Background(), sql).Scan(&yes); err != nil {
			t.Fatal(err)
		}
		if yes {
			return
		}
		if time.Now().After(deadline) {
			var standing string
			_ = l.Pool.QueryRow(context.Background(),
				`SELECT string_agg(p::text, E'\n') || E'\n' || (SELECT s::text FROM ledger_state s) FROM projections p`).Scan(
				&standing)
			t.Fatalf("not caught up after %v:\n%s", testdb.UntilSettled, standing)
		}
	}
}

// holding names where the database holds one of the words that a pattern lists, with | between them.
func (l *live) holding(t testing.TB, pattern string) []string {
	t.Helper()
	return testdb.Holding(t, l.Pool.Config().ConnString(), strings.Split(pattern, "|")...)
}

// wantForgotten wants none of the words anywhere in the database, statistics renewed: a rebuild before the erasure has
// made some.
func (l *live) wantForgotten(t testing.TB, pattern string) {
	t.Helper()
	if _, err := l.Pool.Exec(context.Background(), `ANALYZE`); err != nil {
		t.Fatal(err)
	}
	if held := l.holding(t, pattern); len(held) > 0 {
		t.Errorf("%s is still in %s", pattern, strings.Join(held, ", "))
	}
}

// rebuildAll builds every projection anew.
func (l *live) rebuildAll(t testing.TB) {
	t.Helper()
	for _, p := range projections.All() {
		l.rebuild(t, p, false)
	}
	for _, p := range projections.Inline() {
		l.rebuild(t, p, true)
	}
}

func (l *live) rebuild(t testing.TB, p projections.Projection, inline bool) {
	t.Helper()
	if _, err := rebuild.Run(context.Background(), rebuild.Config{
		Pool: l.Pool, Projection: p, Inline: inline, ChunkSize: 100, Logger: slog.New(slog.DiscardHandler),
	}); err != nil {
		t.Errorf("rebuild %s: %v", p.Name(), err)
	}
}

// count returns the number that a query selects.
func (l *live) count(t testing.TB, sql string, args ...any) (n int) {
	t.Helper()
	if err := l.Pool.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
