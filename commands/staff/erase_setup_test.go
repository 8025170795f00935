package staff_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/events/ledger"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// live is a database with running projections and a sealer, as in the service.
type live struct {
	*staff.Staff
	name          staff.AuthorName
	stopSealing   func()
	stopFollowing func()
}

// planted are the words of the test's author, apart from the identifier.
const planted = "PlantedWords|PlantedName|PlantedMember"

func setupLive(t testing.TB) *live {
	t.Helper()
	l := &live{Staff: setup(t)}
	for _, p := range projections.Optional() {
		testdb.NoError(t, rebuild.SwitchOn(t.Context(), l.Pool, p))
		l.rebuild(t, p)
	}
	l.follow(t)
	l.seal(t)
	l.name = staff.AuthorName{IntegrationID: newIntegration(t, l.Staff, "Fan Site"), ExternalUUID: "planted/uuid"}
	return l
}

func (l *live) follow(t testing.TB) {
	t.Helper()
	runner, err := projections.NewRunner(projections.Config{
		Pool: l.Pool, Projections: append(projections.All(), projections.Optional()...),
		Logger: slog.New(slog.DiscardHandler),
	})
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
	case <-time.After(testdb.Patience):
		t.Fatal("the projections do not run")
	}
}

func (l *live) seal(t testing.TB) {
	t.Helper()
	pool := testdb.Must(database.OpenHistory(t.Context(), l.Pool.Config().ConnString()))(t)
	sealer := ledger.NewSealer(ledger.SealerConfig{
		Pool: pool, Pace: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { sealer.Run(ctx); close(ended) }()
	l.stopSealing = func() { cancel(); <-ended; pool.Close() }
	t.Cleanup(l.stopSealing)
}

// comments returns imports of comments of an author with planted words.
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
		SELECT FROM (SELECT position FROM projections UNION ALL SELECT tree_size FROM ledger_state) AS c
		WHERE c.position <= (SELECT max(log_index) FROM events))`
	testdb.Eventually(t, "all have caught up", func() bool { return testdb.Value[bool](t, l.Pool, sql) })
}

// holding lists the places in the database that contain one of the words, separated by |.
func (l *live) holding(t testing.TB, pattern string) []string {
	t.Helper()
	return testdb.FindWords(t, l.Pool.Config().ConnString(), strings.Split(pattern, "|")...)
}

// wantForgotten checks that the database contains none of the words, with new planner statistics, because an earlier
// rebuild may have sampled them.
func (l *live) wantForgotten(t testing.TB, pattern string) {
	t.Helper()
	testdb.Exec(t, l.Pool, `ANALYZE`)
	if held := l.holding(t, pattern); len(held) > 0 {
		t.Errorf("%s is still in %s", pattern, strings.Join(held, ", "))
	}
	if n := l.count(t, `SELECT count(*) FROM post_words JOIN posts USING (post_id) WHERE author_id IS NULL`); n > 0 {
		t.Errorf("there are words of %d erased comments", n)
	}
}

// rebuildAll rebuilds every projection.
func (l *live) rebuildAll(t testing.TB) {
	t.Helper()
	for _, p := range slices.Concat(projections.All(), projections.Optional(), projections.Inline()) {
		l.rebuild(t, p)
	}
}

func (l *live) rebuild(t testing.TB, p projections.Projection) {
	t.Helper()
	if _, err := rebuild.Run(context.Background(), rebuild.Config{
		Pool: l.Pool, Projection: p, ChunkSize: 100, Logger: slog.New(slog.DiscardHandler),
	}); err != nil {
		t.Errorf("rebuild %s: %v", p.Name(), err)
	}
}

// count returns the number that a query selects.
func (l *live) count(t testing.TB, sql string, args ...any) int {
	t.Helper()
	return testdb.Value[int](t, l.Pool, sql, args...)
}

// TestAwaitErased waits for the asynchronous tables, and names the projections that have not applied the erasure.
func TestAwaitErased(t *testing.T) {
	t.Parallel()
	l := setupLive(t)
	appendAll(t, l.Staff, l.comments(l.name, "k", 3)...)
	l.caughtUp(t)
	id := testdb.AuthorID(l.name.IntegrationID, l.name.ExternalUUID)
	if err := l.AwaitErased(t.Context(), id); err != nil {
		t.Errorf("no author is erased: %v", err)
	}
	l.stopFollowing()
	testdb.Must(l.EraseAuthor(t.Context(), l.name, "r"))(t)
	wantBehind := func(when string, patience time.Duration, want ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err := l.AwaitErased(ctx, id)
		var behind *staff.NotAppliedError
		if !errors.As(err, &behind) {
			t.Fatalf("%s: %v", when, err)
		}
		if diff := cmp.Diff(want, behind.Projections); diff != "" {
			t.Errorf("%s (-want +got)\n%s", when, diff)
		}
	}
	// Long enough for the first query on a busy machine.
	wantBehind("while nothing follows the log", 5*time.Second, "activity", "posts", "words")

	ended := make(chan error, 1)
	go func() { ended <- l.AwaitErased(context.Background(), id) }()
	l.follow(t)
	if err := <-ended; err != nil {
		t.Errorf("while everything follows the log: %v", err)
	}
	if held := l.holding(t, planted); len(held) > 0 {
		t.Errorf("the author is still in %v", held)
	}

	// A stopped projection will not apply it.
	l.stopFollowing()
	testdb.Exec(t, l.Pool,
		`UPDATE projections SET state = 'failed', error = 'cannot', failed_log_index = position WHERE name = 'posts'`)
	appendAll(t, l.Staff, l.comments(l.name, "anew", 1)...)
	testdb.Must(l.EraseAuthor(t.Context(), l.name, "r"))(t)
	l.follow(t)
	wantBehind("while one has failed", testdb.Patience, "posts")
	if err := projections.Retry(t.Context(), l.Pool, "posts"); err != nil {
		t.Fatal(err)
	}
	if err := l.AwaitErased(t.Context(), id); err != nil {
		t.Errorf("after it went on: %v", err)
	}
}

// TestGuardOpensForErasureOnly: even with the marker set, the trigger refuses every other change.
func TestGuardOpensForErasureOnly(t *testing.T) {
	t.Parallel()
	l := setupLive(t)
	appendAll(t, l.Staff, l.comments(l.name, "k", 2)...)
	l.caughtUp(t)
	l.stopSealing()
	marker := l.name.IntegrationID.String() + "/" + l.name.ExternalUUID
	const refused = "23001"
	const erase = `UPDATE events SET personal = NULL, salt = NULL, personal_digest = personal_digest(salt, personal)`
	try := func(role, marker, statement string) string {
		t.Helper()
		tx := testdb.Begin(t, l.Pool)
		defer func() { _ = tx.Rollback(t.Context()) }()
		testdb.Exec(t, tx,
			`SELECT set_config('session_replication_role', $1, true), set_config('novelgate.erasure', $2, true)`, role, marker)
		_, err := tx.Exec(t.Context(), statement)
		var coded *pgconn.PgError
		if err != nil && !errors.As(err, &coded) {
			t.Fatal(err)
		}
		if coded != nil {
			return coded.Code
		}
		return ""
	}
	for _, role := range []string{"origin", "replica", "local"} {
		for statement, want := range map[string]string{
			erase + ` WHERE event_id = 'k-0'`:                                                                                          "",
			erase + `, data = data WHERE event_id = 'k-0'`:                                                                             "",
			`UPDATE events SET personal = NULL, salt = NULL WHERE event_id = 'k-0'`:                                                    refused,
			`UPDATE events SET personal = NULL, salt = NULL, personal_digest = NULL WHERE event_id = 'k-0'`:                            refused,
			`UPDATE events SET personal = NULL, salt = NULL, personal_digest = personal_digest(NULL, personal) WHERE event_id = 'k-0'`: refused,
			`UPDATE events SET personal = NULL, salt = NULL, personal_digest = personal_digest(salt, '{}') WHERE event_id = 'k-0'`:     refused,
			`UPDATE events SET personal_digest = personal_digest(salt, personal) WHERE event_id = 'k-0'`:                               refused,
			`UPDATE events SET personal = NULL WHERE event_id = 'k-0'`:                                                                 refused,
			`UPDATE events SET salt = NULL WHERE event_id = 'k-0'`:                                                                     refused,
			`UPDATE events SET personal = '{}', salt = NULL WHERE event_id = 'k-0'`:                                                    refused,
			// not all of these are the author's
			erase: refused,
			erase + `, data = '{}' WHERE event_id = 'k-0'`:                     refused,
			erase + `, actor = 'x' WHERE event_id = 'k-0'`:                     refused,
			erase + `, fingerprint = gen_random_uuid() WHERE event_id = 'k-0'`: refused,
			erase + `, integration_id = NULL WHERE event_id = 'k-0'`:           refused,
			erase + `, event_id = 'other' WHERE event_id = 'k-0'`:              refused,
			erase + `, event_type = 'x.y.v1' WHERE event_id = 'k-0'`:           refused,
			erase + `, stream_version = 9 WHERE event_id = 'k-0'`:              refused,
			erase + `, log_index = 9 WHERE event_id = 'k-0'`:                   refused,
			erase + `, recorded_at = now() WHERE event_id = 'k-0'`:             refused,
			`DELETE FROM events WHERE event_id = 'k-0'`:                        refused,
			`TRUNCATE events`: refused,
			`INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, actor, batch_id)
				SELECT 1000 + log_index, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, 'test',
				    batch_id
				    FROM events
				ON CONFLICT (stream_id, stream_version) DO UPDATE SET data = '{"edited":true}'`: refused,
		} {
			if got := try(role, marker, statement); got != want {
				t.Errorf("%s, with marker: %s\ngot %q, want %q", role, statement, got, want)
			}
			if got := try(role, "", statement); got != refused {
				t.Errorf("%s, without: %s\ngot %q", role, statement, got)
			}
			if got := try(role, marker+"x", statement); got != refused {
				t.Errorf("%s, of another author: %s\ngot %q", role, statement, got)
			}
			if got := try(role, "withdrawals", statement); got != refused {
				t.Errorf("%s, of a comment that was not withdrawn: %s\ngot %q", role, statement, got)
			}
		}
	}
}

// TestErasuresLockInOneOrder: the erasures of an author and of withdrawn comments do not deadlock.
func TestErasuresLockInOneOrder(t *testing.T) {
	t.Parallel()
	l := setupLive(t)
	appendAll(t, l.Staff, l.comments(l.name, "k", 2)...)
	ids := []uuid.UUID{events.PostID(l.name.IntegrationID, "k-0"), events.PostID(l.name.IntegrationID, "k-1")}
	for _, id := range ids {
		appendAll(t, l.Staff, events.Recorded{
			StreamType: events.PostStream, StreamID: id, StreamVersion: 2, ID: "w-" + id.String(),
			Source: events.PostWithdrawalsSource(l.name.IntegrationID),
			Event:  events.PostWithdrawn{IntegrationID: l.name.IntegrationID},
		})
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	second, first := ids[1], ids[0]
	for what, erase := range map[string]func(tx pgx.Tx) error{
		"author": func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `SELECT erase_author_events($1, $2, $3)`, l.name.IntegrationID, l.name.ExternalUUID,
				[]uuid.UUID{second, first})
			return err
		},
		"withdrawals": func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `SELECT erase_post_events($1)`, []uuid.UUID{second, first})
			return err
		},
	} {
		holder, eraser := testdb.Begin(t, l.Pool), testdb.Begin(t, l.Pool)
		testdb.Exec(t, holder, `SELECT FROM events WHERE stream_id = $1 FOR UPDATE`, second)
		testdb.Exec(t, eraser, `SET LOCAL lock_timeout = '2s'`)
		ended := make(chan error, 1)
		go func() { ended <- erase(eraser) }()
		testdb.Eventually(t, what+" has the first and waits for the second", func() bool {
			_, err := l.Pool.Exec(t.Context(), `SELECT FROM events WHERE stream_id = $1 AND stream_version = 1 FOR UPDATE NOWAIT`, first)
			return eventlog.IsLocked(err)
		})
		if err := <-ended; !eventlog.IsLocked(err) {
			t.Errorf("%s: %v", what, err)
		}
		testdb.NoError(t, holder.Rollback(t.Context()))
		testdb.NoError(t, eraser.Rollback(t.Context()))
	}
}
