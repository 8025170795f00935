package committer_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/aggregates/novel"
	"novelgate/events"
	"novelgate/internal/testdb"
)

// refuseMarked makes the database refuse every event that carries the word "poison".
const refuseMarked = `ALTER TABLE events ADD CONSTRAINT marked CHECK (data::text NOT LIKE '%poison%')`

// TestOneFailsAlone puts one command that the database refuses among 199 that it takes.
func TestOneFailsAlone(t *testing.T) {
	t.Parallel()
	for _, at := range []int{0, 77, 199} {
		t.Run(fmt.Sprint("at ", at), func(t *testing.T) {
			t.Parallel()
			url := testdb.New(t)
			pool := direct(t, url)
			if _, err := pool.Exec(t.Context(), refuseMarked); err != nil {
				t.Fatal(err)
			}
			r := newReplica(t, url, oneLane)
			p := newPartner()
			commands := make([]any, 200)
			for i := range commands {
				commands[i] = p.post(fmt.Sprint("key-", i), fmt.Sprint("Title ", i%7))
			}
			commands[at] = p.novel("bad", "Bad title", novel.Fields{Synopsis: ptr("poison")})
			answers := r.together(t, commands...)
			for i, a := range answers {
				switch {
				case i == at && !failedBy(a.err, "marked"):
					t.Errorf("command %d: %v, want the refusal of the constraint", i, a)
				case i != at && (a.err != nil || a.post.Replayed):
					t.Errorf("command %d: %v", i, a)
				}
			}
			log := checkTruth(t, pool)
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

// TestDuplicatesInHalves puts the two deliveries of one command into different halves of a batch that is cut.
func TestDuplicatesInHalves(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	pool := direct(t, url)
	if _, err := pool.Exec(t.Context(), refuseMarked); err != nil {
		t.Fatal(err)
	}
	r := newReplica(t, url, oneLane)
	p := newPartner()
	answers := r.together(t,
		p.novel("n", "Title", novel.Fields{}), p.post("k", "Title"),
		p.novel("bad", "Bad title", novel.Fields{Synopsis: ptr("poison")}), p.post("k", "Title"),
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
	checkTruth(t, pool)
}

// TestUndecodableDelivery retries a delivery that a newer version of the program has recorded: the retry fails,
// its neighbours do not.
func TestUndecodableDelivery(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	r := newReplica(t, url, oneLane)
	p := newPartner()
	_, err := direct(t, url).Exec(t.Context(), `INSERT INTO events (position, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, metadata)
		VALUES (0, 'post', gen_random_uuid(), 1, 'new', $1, 'post.imported.v9', '{}', '{}')`, events.PostsSource(p.IntegrationID))
	if err != nil {
		t.Fatal(err)
	}
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
	url := testdb.New(t)
	r := newReplica(t, url, oneLane)
	p := newPartner()
	broken := p.post("k", "Title")
	broken.Import.ChapterNumber = []byte("no JSON")
	answers := r.together(t, p.post("a", "Title"), broken, p.post("b", "Title"))
	if answers[0].err != nil || answers[1].err == nil || answers[2].err != nil {
		t.Errorf("answers: %v", answers)
	}
	checkTruth(t, direct(t, url))
}
