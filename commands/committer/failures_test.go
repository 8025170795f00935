package committer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/events"
	"novelgate/internal/testdb"
)

// outage returns a replica with faulty connections and short time-outs.
func outage(t *testing.T, options ...func(*committer.Config)) (*faults, *replica, partner) {
	t.Helper()
	url := testdb.New(t)
	faults, pool := newFaultyPool(t, url)
	options = append([]func(*committer.Config){timeout(shortly)}, options...)
	r := newReplica(t, url, append(options, func(c *committer.Config) { c.Pool = pool })...)
	r.prompt = true
	return faults, r, newPartner()
}

const (
	shortly = 5 * time.Second  // a committer's time-out: long enough for a new connection on a busy machine
	late    = 30 * time.Second // limit for an answer without any time-out on a busy machine
)

// TestOutage: the server is away at different moments. Afterwards the retry is answered.
func TestOutage(t *testing.T) {
	t.Parallel()
	silent := func(when func(request) bool) func(*faults) {
		return func(f *faults) {
			f.set(func(r request) action {
				if when(r) {
					return swallow
				}
				return forward
			})
		}
	}
	for name, tc := range map[string]struct {
		begin func(*faults)
		want  error
		retry string
	}{
		"no connection":         {func(f *faults) { f.refuse(true) }, committer.ErrUnavailable, "created"},
		"silent from the start": {silent(func(request) bool { return true }), committer.ErrUnavailable, "created"},
		"silent on the reads":   {silent(begins), committer.ErrUnavailable, "created"},
		"silent on the append":  {silent(appends), committer.ErrOutcomeUnknown, "created"},
		"silent once it has committed": {func(f *faults) {
			committed := false
			f.set(func(r request) action {
				switch {
				case committed:
					return swallow
				case r.appends:
					committed = true
					return cutAfter
				default:
					return forward
				}
			})
		}, committer.ErrOutcomeUnknown, "updated replayed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults, r, p := outage(t)
			r.must(t, p.post("a", "Title"))
			tc.begin(faults)
			r.want(t, tc.want, p.novel("n", "New title", novel.Fields{}))
			faults.refuse(false)
			faults.set(func(request) action { return forward })
			r.want(t, tc.retry, p.novel("n", "New title", novel.Fields{}))
			checkTruth(t, r.db)
			r.wantCharged(t, 2)
		})
	}
}

// TestPromptRecovery: after a silence on every connection of the pool, commands succeed at once.
func TestPromptRecovery(t *testing.T) {
	t.Parallel()
	faults, r, p := outage(t)
	fill(t, r.pool)
	faults.set(func(request) action { return swallow })
	for range r.pool.Config().MaxConns + 1 {
		r.want(t, committer.ErrUnavailable, p.post("a", "Title"))
	}
	faults.set(func(request) action { return forward })
	r.want(t, "post", p.post("a", "Title"))
}

// TestTerminatedConnections ends all connections of the pool, as a restart of the server does.
func TestTerminatedConnections(t *testing.T) {
	t.Parallel()
	const connections = 7
	url := testdb.New(t)
	pool := newPool(t, url, func(c *pgxpool.Config) { c.MaxConns = connections })
	r, p := newReplica(t, url, func(c *committer.Config) { c.Pool = pool }), newPartner()
	for round, key := range []string{"a", "b", "c"} {
		fill(t, r.pool)
		ended := testdb.Value[int](t, r.db, `SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'novelgate-append'`)
		if ended < connections {
			t.Fatalf("round %d: ended %d connections", round, ended)
		}
		r.want(t, "post", p.post(key, "Title"))
	}
}

// TestTerminatedUnderTheLock ends the session of a batch that waits for the lock of the log.
func TestTerminatedUnderTheLock(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	answers := r.togetherThen(t, func() {
		testdb.Exec(t, r.db, `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'novelgate-append'`)
	}, p.post("a", "Title"), p.novel("n", "Title", novel.Fields{}))
	wantAnswers(t, answers, "post", "updated")
	checkTruth(t, r.db)
}

// fill makes a pool open all of its connections.
func fill(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	conns := make([]*pgxpool.Conn, pool.Config().MaxConns)
	for i := range conns {
		conn := testdb.Must(pool.Acquire(t.Context()))(t)
		conns[i] = conn
	}
	for _, conn := range conns {
		conn.Release()
	}
}

// TestLostAnswer cuts the connection around each round trip of a batch: each command is executed once, and exactly one
// answer says that it is new.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	for trip, matches := range map[string]func(request) bool{"reads": begins, "append": appends} {
		for name, a := range map[string]action{"before": cutBefore, "carried out": cutAfter, "meanwhile": cutAtOnce} {
			t.Run(trip+"/"+name, func(t *testing.T) {
				t.Parallel()
				faults, r, p := outage(t, timeout(patience))
				r.must(t, p.post("warm", "Known title"))
				armed := false
				release := r.occupy(t)
				var waiting []<-chan answer
				for _, command := range (batch{
					p.novel("n", "New title", novel.Fields{}),
					p.novel("n", "New Title", novel.Fields{Author: new("other")}),
					p.novel("u", "New title", novel.Fields{Author: new("Murasaki")}),
					p.novel("n", "Other title", novel.Fields{}),
					p.post("n", "New title"),
					p.reply("m", "New title", "n"),
					p.post("n", "Known title"),
					p.post("c", "Title that comes with a comment"),
				}) {
					waiting = append(waiting, r.queue(t, command))
				}
				first := true // the batch in flight
				faults.set(func(r request) action {
					switch {
					case r.commits && first:
						first, armed = false, true
					case armed && matches(r):
						armed = false
						return a
					}
					return forward
				})
				release()
				var got []string
				for _, answers := range waiting {
					got = append(got, (<-answers).String())
				}
				want := []string{
					"created", "updated replayed mismatch", "updated",
					"error: the idempotency key was used for another title or comment",
					"post", "post threaded", "post replayed mismatch", "post",
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("answers (-want +got):\n%s", diff)
				}
				if first || armed {
					t.Error("no transaction was cut off")
				}
				created := 0
				for _, recorded := range checkTruth(t, r.db) {
					if _, ok := recorded.Event.(events.NovelCreated); ok {
						created++
					}
				}
				r.wantCharged(t, created)
				// A lost answer may charge a replay twice, never a comment that is stored.
				if n := r.charged(t, ratelimit.Posts); n != 5 && (n != 6 || trip != "append") {
					t.Errorf("%d comments are charged", n)
				}
				// A batch that appends nothing is decided again, too.
				cut := false
				faults.set(func(r request) action {
					if cut || !r.commits {
						return forward
					}
					cut = true
					return a
				})
				if r.want(t, "post replayed", p.post("n", "New title")); !cut {
					t.Error("no transaction was cut off")
				}
			})
		}
	}
}

// TestLostAnswerAfterARefusal: the lost transaction has recorded the second of two commands with one key, because the
// first one was refused. The second one is answered as the original.
func TestLostAnswerAfterARefusal(t *testing.T) {
	t.Parallel()
	faults, r, p := outage(t, timeout(patience))
	r.must(t, p.post("warm", "Title"))
	r.want(t, "post replayed", p.post("warm", "Title")) // the next batches do not try the fast path
	block(t, r.db, p, "troll")
	armed := false
	faults.set(func(r request) action {
		if armed && r.appends {
			armed = false
			return cutAfter
		}
		return forward
	})
	answers := r.togetherThen(t, func() { armed = true },
		p.postBy("troll", "k", "Title"), p.post("k", "Title"), p.post("k", "Title"))
	wantAnswers(t, answers, "post replayed", "post", "post replayed")
	if armed {
		t.Error("no transaction was cut off")
	}
	checkTruth(t, r.db)
}

// TestCancelledWait: a command whose submitter has left is executed, and its retry is answered.
func TestCancelledWait(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r.submit(ended, p.post("never", "Title")).want(t, committer.ErrUnavailable)
	release := r.occupy(t)
	waiting, leave := context.WithCancel(t.Context())
	submitted := testdb.Must(r.Submit(waiting, p.post("k", "Title")))(t)
	leave()
	if _, err := submitted.Wait(waiting); !errors.Is(err, committer.ErrOutcomeUnknown) {
		t.Errorf("after its submitter has left: %v", err)
	}
	release()
	r.want(t, "post replayed", p.post("k", "Title"))
	r.want(t, "post", p.post("never", "Title"))
}

// refuseMarked makes the database refuse every event with the word "poison".
const refuseMarked = `ALTER TABLE events ADD CONSTRAINT marked CHECK (data::text NOT LIKE '%poison%')`

// TestOneFailsAlone: one of 200 commands in a batch fails, and all others succeed.
func TestOneFailsAlone(t *testing.T) {
	t.Parallel()
	p := newPartner()
	unencodable, panics := p.post("bad", "Bad title"), p.post("bad", "Bad title")
	unencodable.Comment.ChapterNumber = []byte("no JSON")
	panics.Comment = nil
	reviewed := newPartner()
	reviewed.Review = true
	for name, tc := range map[string]struct {
		at      int
		command *committer.Command
		fails   func(error) bool
		cuts    bool
	}{
		"refused by the database": {77, p.novel("bad", "Bad title", novel.Fields{Synopsis: new("poison")}), isMarked, true},
		"the first":               {0, p.novel("bad", "Bad title", novel.Fields{Synopsis: new("poison")}), isMarked, true},
		"the last":                {199, p.novel("bad", "Bad title", novel.Fields{Synopsis: new("poison")}), isMarked, true},
		"unreadable key":          {77, p.post("zero \x00 byte", "Bad title"), isRefused, true},
		"unencodable":             {77, unencodable, func(err error) bool { return err != nil }, true},
		"undecodable retry": {77, p.post("new", "Bad title"), func(err error) bool {
			return errors.Is(err, events.ErrUnknownType)
		}, true},
		"panic": {77, panics, func(err error) bool { return err != nil && strings.Contains(err.Error(), "panic") }, true},
		"refused": {77, reviewed.post("bad", "Bad title"), func(err error) bool {
			return errors.Is(err, post.ErrNovelNotFound)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := setup(t)
			testdb.Exec(t, r.db, refuseMarked)
			if name == "undecodable retry" {
				recordUnknown(t, r, p, "new")
			}
			commands := make(batch, 200)
			for i := range commands {
				commands[i] = p.post(fmt.Sprint("key-", i), fmt.Sprint("Title ", i%7))
			}
			commands[tc.at] = tc.command
			for i, a := range r.together(t, commands...) {
				switch {
				case i == tc.at && !tc.fails(a.err):
					t.Errorf("command %d: %v", i, a)
				case i != tc.at && a.String() != "post":
					t.Errorf("command %d: %v", i, a)
				}
			}
			if posts := testdb.Value[int](t, r.db, `SELECT count(*) FROM events WHERE event_type = 'post.imported.v1'`); posts != 199 {
				t.Errorf("%d posts are stored", posts)
			}
			// A binary search: 200, 100, 50, … and the neighbours of each step.
			if n, cuts := r.commits.Load(), r.bisections(t); n > 8 || cuts > 8 || (cuts > 0) != tc.cuts {
				t.Errorf("%d transactions, %d bisections", n, cuts)
			}
			r.wantCharged(t, 7)
			comments := 199 // and one that was refused by a decision
			if !tc.cuts {
				comments++
			}
			if n := r.charged(t, ratelimit.Posts); n != comments {
				t.Errorf("%d comments are charged", n)
			}
			if name != "undecodable retry" { // its event stays undecodable
				checkTruth(t, r.db)
			}
		})
	}
}

func isMarked(err error) bool { return failedBy(err, "marked") }

func isRefused(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused)
}

// recordUnknown records a comment of a type that a newer version has.
func recordUnknown(t testing.TB, r *replica, p partner, key string) {
	t.Helper()
	testdb.Exec(t, r.db, `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, integration_id, event_source, event_type, data, batch_id)
		VALUES ((SELECT coalesce(max(log_index) + 1, 0) FROM events), 'post', $3, 1, $1, $2, 'posts', 'post.imported.v9', '{"novelId":"n-1"}', gen_random_uuid())`,
		key, p.IntegrationID, events.PostID(p.IntegrationID, key))
}

func failedBy(err error, constraint string) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.ConstraintName == constraint
}

// TestDuplicatesInHalves puts two deliveries of one command into different halves of a split batch.
func TestDuplicatesInHalves(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	testdb.Exec(t, r.db, refuseMarked)
	answers := r.together(t,
		p.novel("n", "Title", novel.Fields{}), p.post("k", "Title"),
		p.novel("bad", "Bad title", novel.Fields{Synopsis: new("poison")}), p.post("k", "Title"),
		p.novel("n", "Title", novel.Fields{}), p.post("k", "Title"),
	)
	if !failedBy(answers[2].err, "marked") {
		t.Errorf("marked command: %v", answers[2])
	}
	answers = slices.Delete(answers, 2, 3)
	wantAnswers(t, answers, "created", "post", "post replayed", "updated replayed", "post replayed")
	checkTruth(t, r.db)
}
