package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

const (
	ownComments = 1200 // of each erased author: three transactions of an erasure
	eraseBatch  = 500  // as in commands/staff
)

// TestKilledErasure kills the command line, or the service during the request, with SIGKILL while it erases one author
// after another: at a random moment, and in a transaction that waits for a lock. Only whole transactions remain, and no
// event is erased in part; a second call erases only the rest. With --rewrite, statistics have no erased data either.
func TestKilledErasure(t *testing.T) {
	t.Parallel()
	database := startServer(t, nil).url()
	data := t.TempDir() // with the key of the ledger
	// A request may take as long as its erasure waits for a lock.
	restart := func() *Service { return serve(t, slowly(database), "--data-dir", data, "--request-timeout", "60s") }
	s, p := restart(), newPartner(t, database)
	ada := s.NewStaff(t)
	integration := uuid.MustParse(p.IntegrationID)
	idOf := func(author string) uuid.UUID {
		return testdb.Must(staff.AuthorName{IntegrationID: integration, ExternalUUID: author}.ID(
			t.Context(), testdb.Pool(t, database)))(t)
	}
	write(t, database, integration, "neighbour", 20)
	// erased counts the erased comments of an author, and fails for a comment that is erased in part.
	erased := func(author string) int {
		t.Helper()
		if n := value[int](t, database, `SELECT count(*) FROM events WHERE event_type = 'post.imported.v1'
			AND (personal IS NULL) <> (salt IS NULL)`); n != 0 {
			t.Errorf("%d comments are erased by half", n)
		}
		return ownComments - value[int](t, database,
			`SELECT count(*) FROM events WHERE event_type = 'post.imported.v1' AND personal ->> 'uuid' = $1`, author)
	}
	for round := range 4 { // each way once
		author := fmt.Sprintf("%s-%d", planted, round)
		write(t, database, integration, author, ownComments)
		s.MustCLI(t, "author", "link", p.Name, author, "member of "+author)
		awaitProjections(t, database)
		awaitSigned(t, database)
		execute(t, database, `ANALYZE`) // as autovacuum may at any time
		overHTTP, held := round%2 == 1, round < 2
		command := []string{"author", "erase", p.Name, author, "--reason", "asked"}
		request := Request{Method: "DELETE", Path: p.authorPath(author) + "?reason=asked", Bearer: ada.APIKey}
		start := func() (kill func()) {
			if !overHTTP {
				return launch(t, append(command, "--database-url", database)...).kill
			}
			stop := testdb.Background(t, func(ctx context.Context) {
				_, _ = s.do(ctx, request) // the service may be killed before it answers
			})
			return func() { s.kill(); stop() }
		}
		if held {
			at := eraseBatch + rand.IntN(ownComments-eraseBatch)
			connection := testdb.Connect(t, database)
			testdb.Exec(t, connection, `BEGIN`)
			testdb.Exec(t, connection, `SELECT FROM events WHERE stream_id = (SELECT post_id FROM posts WHERE author_id = $1
				ORDER BY post_id OFFSET $2 LIMIT 1) FOR UPDATE`, idOf(author), at)
			kill := start()
			testdb.Eventually(t, "the erasure waits for a lock", func() bool {
				return value[int](t, database, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
					AND query LIKE '%erase_author_events%' AND pid <> pg_backend_pid()`) > 0
			})
			kill()
			if got, want := erased(author), at-at%eraseBatch; got != want {
				t.Errorf("round %d, killed at comment %d: %d are erased, want %d", round, at, got, want)
			}
			testdb.Exec(t, connection, `ROLLBACK`)
		} else {
			kill := start()
			time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond) // any moment will do
			kill()
		}
		left := erased(author)
		if left%eraseBatch != 0 && left != ownComments {
			t.Errorf("round %d: %d of %d comments are erased: no number of whole transactions", round, left, ownComments)
		}
		t.Logf("round %d: %d of %d comments were erased at the kill", round, left, ownComments)
		if overHTTP {
			s = restart()
		}
		testdb.Eventually(t, "the erasure is completed", func() bool {
			if overHTTP {
				response, err := s.do(t.Context(), request)
				return err == nil && response.Status == 200
			}
			return RunCLI(t, database, command...).Code == 0
		})
		if got := erased(author); got != ownComments {
			t.Errorf("%d of %d comments are erased", got, ownComments)
		}
		if n := value[int](t, database, `SELECT count(*) FROM events WHERE stream_id = $1 AND personal IS NOT NULL`,
			idOf(author)); n != 0 {
			t.Errorf("%d decisions about the author still name them", n)
		}
	}
	awaitProjections(t, database)
	for what, sql := range map[string]string{
		"posts show words": `SELECT count(*) FROM analytics.posts WHERE content LIKE '%` + planted +
			`-%' OR author_id IN (SELECT author_id FROM authors WHERE external_uuid <> 'neighbour')`,
		"words of the neighbour": `SELECT 20 - count(*) FROM posts AS p JOIN authors AS a USING (author_id)
			WHERE a.external_uuid = 'neighbour' AND p.content_bytes IS NOT NULL`,
		"posts out of place": fmt.Sprintf(`SELECT %d - count(*) FROM posts`, 4*ownComments+20),
	} {
		if n := value[int](t, database, sql); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
	MustCLI(t, database, "author", "erase", p.Name, planted+"-0", "--reason", "asked", "--rewrite")
	if held := testdb.FindWords(t, database, planted+"-"); len(held) > 0 {
		t.Errorf("what was erased is still in %v", held)
	}
	MustCLI(t, database, "events", "verify")
}

// write appends comments of an author.
func write(t *testing.T, databaseURL string, integration uuid.UUID, author string, n int) {
	t.Helper()
	recorded := make([]events.Recorded, n)
	for i := range recorded {
		key := fmt.Sprintf("%s #%d", uuid.NewString(), i)
		recorded[i] = events.Recorded{
			StreamType: events.PostStream, StreamID: events.PostID(integration, key), StreamVersion: 1, ID: key,
			Source: events.PostsSource(integration),
			Salt:   uuid.NullUUID{UUID: uuid.New(), Valid: true},
			Event: events.PostImported{
				IntegrationID: integration, NovelID: uuid.UUID{1}, ThreadID: uuid.UUID{2},
				WrittenAt: time.Unix(int64(i), 0).UTC(),
				Comment:   &events.Comment{ExternalUUID: author, Username: "a name", Content: planted + " of " + author},
			},
		}
	}
	if err := projections.Append(t.Context(), testdb.Pool(t, databaseURL), recorded...); err != nil {
		t.Fatal(err)
	}
}
