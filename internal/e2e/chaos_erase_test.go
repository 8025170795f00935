package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
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

// eraseDesk is a service with a partner whose authors are erased one after another.
type eraseDesk struct {
	*Service

	url         string
	integration uuid.UUID
	name        string // of the integration
	staffKey    string
	staff       *staff.Staff
}

// TestKilledErasure kills the command line, or the service during the request, with SIGKILL while it erases one author
// after another: at a random moment, and in a transaction that waits for a lock. Only whole transactions remain, and no
// event is erased in part; a second call erases only the rest. With --vacuum, statistics have no erased data either.
func TestKilledErasure(t *testing.T) {
	t.Parallel()
	d := newEraseDesk(t)
	d.write(t, "neighbour", 20)
	const rounds = 4 // each way once
	var left []int   // comments that were erased at the kill
	for round := range rounds {
		author := fmt.Sprintf("%s/%d", planted, round)
		d.write(t, author, ownComments)
		testdb.Must(d.staff.LinkAuthor(t.Context(), staff.AuthorName{IntegrationID: d.integration, ExternalUUID: author},
			"member of "+author, ""))(t)
		awaitProjections(t, d.url, d.sealed(t))
		if _, err := d.staff.Pool.Exec(t.Context(), `ANALYZE`); err != nil { // as autovacuum may at any time
			t.Fatal(err)
		}
		overHTTP, held := round%2 == 1, round%4 < 2
		erase := d.eraseByCommand
		if overHTTP {
			erase = d.eraseByRequest
		}
		if held {
			at := eraseBatch + rand.IntN(ownComments-eraseBatch)
			release := d.hold(t, author, at)
			kill := erase(t, author)
			d.awaitBlocked(t)
			kill()
			if got, want := d.erased(t, author), at-at%eraseBatch; got != want {
				t.Errorf("round %d, killed at comment %d: %d are erased, want %d", round, at, got, want)
			}
			release()
		} else {
			kill := erase(t, author)
			time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond) // any moment will do
			kill()
		}
		left = append(left, d.erased(t, author))
		if got := left[round]; got%eraseBatch != 0 && got != ownComments {
			t.Errorf("round %d: %d of %d comments are erased, which is no number of whole transactions", round, got, ownComments)
		}
		if overHTTP {
			d.start(t)
		}
		d.finish(t, author, overHTTP)
	}
	awaitProjections(t, d.url, d.sealed(t))
	for what, sql := range map[string]string{
		"posts show words": `SELECT count(*) FROM analytics.posts WHERE content LIKE '%` + planted +
			`/%' OR author_id IN (SELECT author_id FROM authors WHERE external_uuid <> 'neighbour')`,
		"words of the neighbour": `SELECT 20 - count(*) FROM posts AS p JOIN authors AS a USING (author_id) WHERE a.external_uuid = 'neighbour' AND p.content_bytes IS NOT NULL`,
		"posts out of place":     fmt.Sprintf(`SELECT %d - count(*) FROM posts`, rounds*ownComments+20),
	} {
		if n := value[int](t, d.url, sql); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
	MustCLI(t, d.url, "author", "erase", d.name, planted+"/0", "--reason", "asked", "--vacuum")
	if held := testdb.FindWords(t, d.url, planted+"/"); len(held) > 0 {
		t.Errorf("what was erased is still in %v", held)
	}
	MustCLI(t, d.url, "events", "verify")
	t.Logf("of %d comments %v were erased after each kill", ownComments, left)
}

func newEraseDesk(t *testing.T) *eraseDesk {
	t.Helper()
	d := &eraseDesk{url: startServer(t, nil).url()}
	d.start(t)
	p := newPartner(t, d.url)
	d.integration, d.staffKey = uuid.MustParse(p.IntegrationID), d.NewStaff(t).APIKey
	d.name = value[string](t, d.url, `SELECT name FROM integrations`)
	pool := testdb.Pool(t, d.url)
	d.staff = &staff.Staff{Pool: pool, Actor: "staff:test", Now: time.Now}
	return d
}

// start starts the service. A request may take as long as its erasure waits for a lock.
func (d *eraseDesk) start(t *testing.T) {
	t.Helper()
	d.Service = serve(t, slowly(d.url), "--request-timeout", "60s")
}

// write appends comments of an author.
func (d *eraseDesk) write(t *testing.T, author string, n int) {
	t.Helper()
	recorded := make([]events.Recorded, n)
	for i := range recorded {
		key := fmt.Sprintf("%s #%d", uuid.NewString(), i)
		recorded[i] = events.Recorded{
			StreamType: events.PostStream, StreamID: events.PostID(d.integration, key), StreamVersion: 1, ID: key,
			Source: events.PostsSource(d.integration),
			Salt:   uuid.NullUUID{UUID: uuid.New(), Valid: true},
			Event: events.PostImported{
				IntegrationID: d.integration, NovelID: uuid.UUID{1}, ThreadID: uuid.UUID{2},
				WrittenAt: time.Unix(int64(i), 0).UTC(),
				Comment:   &events.Comment{ExternalUUID: author, Username: "a name", Content: planted + " of " + author},
			},
		}
	}
	if err := projections.Append(t.Context(), d.staff.Pool, recorded...); err != nil {
		t.Fatal(err)
	}
}

// sealed returns the whole log, once it is sealed.
func (d *eraseDesk) sealed(t *testing.T) (recorded []events.Recorded) {
	t.Helper()
	recorded = readLog(t, d.url)
	testdb.Eventually(t, "the log is sealed", func() bool {
		return value[int](t, d.url, `SELECT tree_size FROM ledger_state`) == len(recorded)
	})
	return recorded
}

// eraseByCommand starts the command line. kill kills it.
func (d *eraseDesk) eraseByCommand(t *testing.T, author string) (kill func()) {
	t.Helper()
	return launch(t, "author", "erase", d.name, author, "--reason", "asked", "--database-url", d.url).kill
}

// eraseByRequest sends the request. kill kills the service.
func (d *eraseDesk) eraseByRequest(t *testing.T, author string) (kill func()) {
	t.Helper()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = d.request(author) // the service may be killed before it answers
	}()
	return func() {
		d.kill()
		<-answered
	}
}

// request sends the request and returns its status.
func (d *eraseDesk) request(author string) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	address := d.URL + "/api/admin/integrations/" + d.integration.String() + "/authors/" + url.PathEscape(author) +
		"?reason=asked"
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, address, http.NoBody)
	if err != nil {
		return 0, err
	}
	request.Close = true // leaves no idle connection behind
	request.Header.Set("Authorization", "Bearer "+d.staffKey)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// finish repeats the erasure until it succeeds, and checks the result.
func (d *eraseDesk) finish(t *testing.T, author string, overHTTP bool) {
	t.Helper()
	testdb.Eventually(t, "the erasure is completed", func() bool {
		if overHTTP {
			status, err := d.request(author)
			return err == nil && status == http.StatusOK
		}
		return RunCLI(t, d.url, "author", "erase", d.name, author, "--reason", "asked").Code == 0
	})
	if got := d.erased(t, author); got != ownComments {
		t.Errorf("%d of %d comments are erased", got, ownComments)
	}
	id := events.AuthorID(d.integration, author)
	if n := value[int](t, d.url, `SELECT count(*) FROM events WHERE stream_id = $1 AND personal IS NOT NULL`, id); n != 0 {
		t.Errorf("%d decisions about the author still name them", n)
	}
}

// erased counts the erased comments of an author, and fails for a comment that is erased in part.
func (d *eraseDesk) erased(t *testing.T, author string) int {
	t.Helper()
	if n := value[int](t, d.url,
		`SELECT count(*) FROM events WHERE event_type = 'post.imported.v1' AND (personal IS NULL) <> (salt IS NULL)`); n != 0 {
		t.Errorf("%d comments are erased by half", n)
	}
	left := value[int](t, d.url,
		`SELECT count(*) FROM events WHERE event_type = 'post.imported.v1' AND personal ->> 'uuid' = $1`, author)
	return ownComments - left
}

// hold locks the author's n-th comment that an erasure reaches.
func (d *eraseDesk) hold(t *testing.T, author string, nth int) (release func()) {
	t.Helper()
	connection := testdb.Connect(t, d.url)
	testdb.Exec(t, connection, `BEGIN`)
	testdb.Exec(t, connection,
		`SELECT FROM events WHERE stream_id = (SELECT post_id FROM posts WHERE author_id = $1 ORDER BY post_id OFFSET $2 LIMIT 1) FOR UPDATE`,
		events.AuthorID(d.integration, author), nth)
	return func() { _ = connection.Close(context.Background()) } // which ends its transaction
}

// awaitBlocked waits until an erasure waits for the lock.
func (d *eraseDesk) awaitBlocked(t *testing.T) {
	t.Helper()
	testdb.Eventually(t, "the erasure waits for a lock", func() bool {
		return value[int](t, d.url,
			`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%erase_author_events%' AND pid <> pg_backend_pid()`) > 0
	})
}
