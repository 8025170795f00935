package committer_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/novel"
	"novelgate/commands/committer"
	"novelgate/events"
	"novelgate/internal/testdb"
)

// outage returns a replica with faulty connections and short time-outs.
func outage(t *testing.T, options ...func(*committer.Config)) (*faults, *replica, partner) {
	t.Helper()
	url := testdb.New(t)
	faults, pool := newFaultyPool(t, url, 1)
	options = append([]func(*committer.Config){timeout(shortly)}, options...)
	r := newReplica(t, url, append(options, func(c *committer.Config) { c.Pool = pool })...)
	r.prompt = true
	return faults, r, newPartner()
}

const (
	shortly = 5 * time.Second  // a committer's time-out: long enough for a new connection on a busy machine
	late    = 30 * time.Second // limit for an answer without any time-out on a busy machine
)

func TestConnectionRefused(t *testing.T) {
	t.Parallel()
	faults, r, p := outage(t)
	r.must(t, p.post("a", "Title"))
	faults.refuse(true)
	r.want(t, committer.ErrUnavailable, p.post("b", "Title"))
	faults.refuse(false)
	r.want(t, "post", p.post("b", "Title"))
	checkTruth(t, r.db)
}

// TestSilence: the server stops answering at different moments.
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
			faults, r, p := outage(t)
			r.must(t, p.post("a", "Title"))
			faults.set(func(r request) action {
				if tc.silent(r) {
					return swallow
				}
				return forward
			})
			r.want(t, tc.want, p.novel("n", "New title", novel.Fields{}))
			faults.set(func(request) action { return forward })
			r.want(t, "created", p.novel("n", "New title", novel.Fields{}))
			checkTruth(t, r.db)
			// Too few may be granted after an unknown outcome, never too many.
			if used := r.used(); used != 2 && (used != 3 || !errors.Is(tc.want, committer.ErrOutcomeUnknown)) {
				t.Errorf("%d creations were charged for two novels", used)
			}
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

// TestCommittedInSilence: the server executes a transaction and then does not answer until the committer gives up.
func TestCommittedInSilence(t *testing.T) {
	t.Parallel()
	faults, r, p := outage(t)
	r.must(t, p.post("a", "Title"))
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
	r.want(t, committer.ErrOutcomeUnknown, p.novel("n", "New title", novel.Fields{}))
	faults.set(func(request) action { return forward })
	r.want(t, "updated replayed", p.novel("n", "New title", novel.Fields{}))
	checkTruth(t, r.db)
	r.wantCharged(t, 2)
}

// TestLostCommitInLockedPath loses the answer to the COMMIT of an explicit transaction, and to its earlier statements.
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
			faults, r, p := outage(t, timeout(patience))
			conflict(t, r.db, 1)
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
			checkTruth(t, r.db)
			r.wantCharged(t, 1)
		})
	}
}

// TestTerminatedConnections ends all connections of the pool, as a restart of the server does.
func TestTerminatedConnections(t *testing.T) {
	t.Parallel()
	r, p := setup(t, lanes(6))
	for round, key := range []string{"a", "b", "c"} {
		fill(t, r.pool)
		ended := testdb.Value[int](t, r.db, `SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'novelgate-append'`)
		if ended < 7 {
			t.Fatalf("round %d: ended %d connections", round, ended)
		}
		r.want(t, "post", p.post(key, "Title"))
	}
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

// TestLimiterAway: if the limiter of creations fails or hangs, other commands are unaffected.
func TestLimiterAway(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*purse){
		"fails": func(p *purse) { p.err = errors.New("limiter is away") },
		"hangs": func(p *purse) { p.hangs = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, p := setup(t, timeout(10*time.Second))
			r.must(t, p.post("warm", "Title"))
			answers := r.togetherThen(t, func() { spoil(r.permits) },
				p.post("a", "Title"), p.novel("n", "New", novel.Fields{}), p.novel("u", "Title", novel.Fields{}),
				newPartner().post("x", "Newer"))
			for i, want := range []bool{true, false, true, false} {
				if err := answers[i].err; (err == nil) != want || err != nil && !errors.Is(err, committer.ErrUnavailable) {
					t.Errorf("command %d: %v", i, answers[i])
				}
			}
			checkTruth(t, r.db)
		})
	}
}

// TestLostAnswer cuts the connection around the transaction of a batch: each command is executed once, and exactly one
// answer says that it is new.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]action{"before": cutBefore, "carried out": cutAfter, "meanwhile": cutAtOnce} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults, replica, p := outage(t, timeout(patience))
			replica.must(t, p.post("warm", "Known title"))
			armed := false
			faults.set(func(r request) action {
				if armed && r.appends {
					armed = false
					return a
				}
				return forward
			})
			got := replica.togetherThen(t, func() { armed = true },
				p.novel("n", "New title", novel.Fields{}),
				p.novel("n", "New Title", novel.Fields{Author: new("other")}),
				p.novel("u", "New title", novel.Fields{Author: new("Murasaki")}),
				p.novel("n", "Other title", novel.Fields{}),
				p.post("n", "New title"),
				p.reply("m", "New title", "n"),
				p.post("n", "Known title"),
				p.post("c", "Title that comes with a comment"),
			)
			want := []string{
				"created", "updated replayed mismatch", "updated", "error: the idempotency key was used for another title",
				"post", "post threaded", "post replayed mismatch", "post",
			}
			if diff := cmp.Diff(want, texts(got)); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			if armed {
				t.Error("no transaction was cut off")
			}
			log := checkTruth(t, replica.db)
			created := 0
			for _, recorded := range log {
				if _, ok := recorded.Event.(events.NovelCreated); ok {
					created++
				}
			}
			if used := replica.used(); used != created {
				t.Errorf("%d creations were charged for %d novels", used, created)
			}
		})
	}
}

// refuseMarked makes the database refuse every event with the word "poison".
const refuseMarked = `ALTER TABLE events ADD CONSTRAINT marked CHECK (data::text NOT LIKE '%poison%')`

// TestOneFailsAlone: of 200 commands in a batch, the database refuses one.
func TestOneFailsAlone(t *testing.T) {
	t.Parallel()
	for _, at := range []int{0, 77, 199} {
		t.Run(fmt.Sprint("at ", at), func(t *testing.T) {
			t.Parallel()
			r, p := setup(t)
			testdb.Exec(t, r.db, refuseMarked)
			commands := make(batch, 200)
			for i := range commands {
				commands[i] = p.post(fmt.Sprint("key-", i), fmt.Sprint("Title ", i%7))
			}
			commands[at] = p.novel("bad", "Bad title", novel.Fields{Synopsis: new("poison")})
			answers := r.together(t, commands...)
			for i, a := range answers {
				switch {
				case i == at && !failedBy(a.err, "marked"):
					t.Errorf("command %d: %v, want the refusal of the constraint", i, a)
				case i != at && (a.err != nil || a.Replayed):
					t.Errorf("command %d: %v", i, a)
				}
			}
			log := checkTruth(t, r.db)
			if posts := slices.DeleteFunc(log, func(r events.Recorded) bool { return r.StreamType != events.PostStream }); len(
				posts) != 199 {
				t.Errorf("%d posts are stored", len(posts))
			}
			// A binary search: 200, 100, 50, … and the neighbours of each step.
			if n := r.commits.Load(); n > 8 {
				t.Errorf("%d transactions", n)
			}
			t.Logf("%d transactions committed, %d bisections", r.commits.Load(), r.bisections())
			if used := r.used(); used != 7 && used != 6 {
				t.Errorf("%d creations were charged", used)
			}
		})
	}
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
	want := []string{"created", "post", "post replayed", "updated replayed", "post replayed"}
	if diff := cmp.Diff(want, texts(answers)); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	checkTruth(t, r.db)
}

// TestUndecodableDelivery: the retry of a delivery that a newer version recorded fails, and the other commands succeed.
func TestUndecodableDelivery(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	testdb.Exec(t, r.db, `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, integration_id, event_source, event_type, data, batch_id)
		VALUES ((SELECT coalesce(max(log_index) + 1, 0) FROM events), 'post', $2, 1, 'new', $1, 'posts', 'post.imported.v9', '{}', gen_random_uuid())`, p.IntegrationID, events.PostID(p.IntegrationID, "new"))
	answers := r.together(t, p.post("a", "Title"), p.post("new", "Title"), p.post("b", "Title"))
	if answers[0].err != nil || answers[2].err != nil {
		t.Errorf("neighbours: %v, %v", answers[0], answers[2])
	}
	if err := answers[1].err; !errors.Is(err, events.ErrUnknownType) {
		t.Errorf("retry: %v", err)
	}
}

// TestUnencodableCommand lets one command fail before anything is sent.
func TestUnencodableCommand(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	broken := p.post("k", "Title")
	broken.Comment.ChapterNumber = []byte("no JSON")
	answers := r.together(t, p.post("a", "Title"), broken, p.post("b", "Title"))
	if answers[0].err != nil || answers[1].err == nil || answers[2].err != nil {
		t.Errorf("answers: %v", answers)
	}
	checkTruth(t, r.db)
}
