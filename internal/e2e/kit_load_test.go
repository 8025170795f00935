package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/testdb"
)

// answer is the answer to a request, or an error.
type answer struct {
	Response

	err  error // without a complete answer
	sent time.Time
	took time.Duration
}

// send sends a request once. It returns an error in answer instead of failing the test. An error must not contain a
// secret.
func (s *Service) send(t testing.TB, r Request) (a answer) {
	r.Once = true
	a.sent = time.Now()
	a.Response, a.err = s.do(context.Background(), r)
	a.took = time.Since(a.sent)
	if a.Status >= http.StatusBadRequest {
		wantNoSecret(t, "an error", a.Body)
	}
	return a
}

// comment sends a comment with planted words to a service.
func (p *Partner) comment(t testing.TB, to *Service, title, key string) answer {
	return to.send(t, p.Request(PostsPath, key, comment(title, "reader", key).JSON(t)))
}

// insist repeats the comment until it is acknowledged.
func (p *Partner) insist(t testing.TB, to *Service, title, key string) (a answer) {
	t.Helper()
	testdb.Eventually(t, key+" is acknowledged", func() bool {
		a = p.comment(t, to, title, key)
		return a.succeeded()
	})
	return a
}

// succeeded reports whether the command was acknowledged.
func (a answer) succeeded() bool {
	return a.err == nil && (a.Status == http.StatusCreated || a.Status == http.StatusOK)
}

// unavailable reports whether the answer is the right one during an outage: 503 with Retry-After.
func (a answer) unavailable() bool {
	return a.err == nil && a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") != "" &&
		bytes.Contains(a.Body, []byte(`"code":"unavailable"`))
}

// fromGateway reports whether a load balancer has answered, with HTML or nothing, because no service did.
func (a answer) fromGateway() bool {
	kind := a.Header.Get("Content-Type")
	return a.Status >= http.StatusBadGateway && (kind == "" || strings.HasPrefix(kind, "text/html"))
}

// refused reports whether the connection was refused or closed before an answer.
func (a answer) refused() bool {
	return a.Status == 0 && errors.Is(a.err, io.EOF) || errors.Is(a.err, syscall.ECONNREFUSED) ||
		errors.Is(a.err, syscall.ECONNRESET) || errors.Is(a.err, syscall.EPIPE)
}

// command is a command and the knowledge about its execution.
type command struct {
	Request

	title  string
	parent *command // the comment that this one replies to

	tries    int
	created  bool         // one of the answers was 201
	answered *identifiers // nil while nothing was acknowledged
}

func (c *command) String() string { return c.Path + " " + c.Key }

// identifiers are the identifiers in an answer, of any operation.
type identifiers struct {
	NovelID      uuid.UUID  `json:"novelId"`
	Slug         string     `json:"slug"`
	PostID       uuid.UUID  `json:"postId"`
	ThreadID     uuid.UUID  `json:"threadId"`
	ParentPostID *uuid.UUID `json:"parentPostId"`
	URL          string     `json:"url"`
}

// load is a partner platform with some connections: comments on known and new novels, replies, upserts. Half of the
// commands without an answer are sent again with the same key. It records the answers to all commands.
type load struct {
	*Partner

	t       testing.TB
	target  atomic.Pointer[[]*Service]
	watch   func(a answer)          // sees every answer; set before start, like all below
	pause   time.Duration           // after a success
	deliver func(c *command) answer // sends a command; by default to one of the targets

	stubborn bool // every command is sent again until it is acknowledged
	gateway  bool // answers of a load balancer are no answers of the service

	stopped atomic.Bool
	made    atomic.Int64 // number of commands
	all     sync.WaitGroup
	name    string

	mu           sync.Mutex
	commands     []*command
	acknowledged int
	statuses     map[int]int // 0: no answer
	surprises    int
}

// The connections share some novels, and change to new ones after a while.
const (
	sharedTitles = 12
	waveLength   = 400 // commands
)

// newLoad returns a load on services, without connections.
func newLoad(t testing.TB, p *Partner, replicas ...*Service) *load {
	t.Helper()
	l := &load{Partner: p, t: t, watch: func(answer) {}, name: Unique("Load"), statuses: map[int]int{}}
	l.deliver = func(c *command) answer {
		services := *l.target.Load()
		return services[rand.IntN(len(services))].send(t, c.Request)
	}
	l.target.Store(&replicas)
	return l
}

// startLoad starts connections that send to services.
func startLoad(t testing.TB, p *Partner, connections int, replicas ...*Service) *load {
	t.Helper()
	l := newLoad(t, p, replicas...)
	l.start(connections)
	return l
}

// underLoad starts a service on its own server, and 16 connections that send commands with a pause after each success.
func underLoad(t testing.TB, pause time.Duration) (*server, *Service, *load, *witness) {
	t.Helper()
	database := startServer(t, nil)
	service := serve(t, database.url())
	l, w := newLoad(t, newPartner(t, database.url()), service), &witness{stalls: watchStalls(t)}
	l.watch, l.pause = w.see, pause
	l.start(16)
	return database, service, l, w
}

// start starts connections.
func (l *load) start(connections int) {
	for i := range connections {
		l.all.Go(func() { l.connection(i) })
	}
}

// stop waits for the last answer of every connection.
func (l *load) stop() {
	l.stopped.Store(true)
	l.all.Wait()
}

// settle ends the load and compares log and tables with the answers.
func (l *load) settle(service *Service, databaseURL string) outcome {
	l.t.Helper()
	l.stop()
	seen := l.reconcile(service, databaseURL)
	count := wantSoundLog(l.t, databaseURL)
	if service.OpsURL != "" {
		service.metrics(l.t)
	}
	l.t.Logf("%d acknowledged, %d without an answer, of which %d are on record; %d events; answers %v", seen.acknowledged,
		seen.unknown, seen.unknownStored, count, l.statuses)
	return seen
}

func (l *load) connection(number int) {
	var comments []*command // acknowledged ones: parents of replies
	for n := 0; !l.stopped.Load(); n++ {
		c := l.next(fmt.Sprintf("%d-%d", number, n), comments)
		for {
			a := l.deliver(c)
			l.enter(c, a)
			l.watch(a)
			if a.succeeded() {
				if c.Path == PostsPath && len(comments) < 200 {
					comments = append(comments, c)
				}
				time.Sleep(l.pause)
				break
			}
			time.Sleep(time.Duration(20+rand.IntN(80)) * time.Millisecond)
			if l.stopped.Load() || !l.stubborn && rand.IntN(2) == 0 {
				break
			}
		}
	}
}

// next makes a new command.
func (l *load) next(unique string, comments []*command) *command {
	c := &command{title: fmt.Sprintf("%s %d-%d", l.name, l.made.Add(1)/waveLength, rand.IntN(sharedTitles))}
	dice := rand.IntN(100)
	if dice%7 == 0 {
		c.title = l.name + " alone " + unique
	}
	var body Fields
	path := PostsPath
	if dice < 80 {
		if dice < 30 && len(comments) > 0 {
			c.parent = comments[rand.IntN(len(comments))]
			c.title = c.parent.title
		}
		body = comment(c.title, fmt.Sprintf("reader %d", rand.IntN(50)), unique)
		if c.parent != nil {
			body["parent_uuid"] = c.parent.Key
		}
	} else {
		path = NovelsPath
		body = Fields{
			"novel": c.title, "author": "Author " + unique, "synopsis": "Synopsis " + unique, "genres": []string{"a", unique},
			"readingStatus": []string{"ongoing", "completed", "hiatus"}[rand.IntN(3)],
		}
	}
	c.Request = l.Request(path, strings.ReplaceAll(l.name+"-"+unique, " ", "-"), body.JSON(l.t))
	return c
}

// comment returns the members of a comment, with planted words that must not leak.
func comment(title, reader, unique string) Fields {
	return Fields{
		"uuid": planted + " " + reader, "username": planted + " " + unique, "novel": title,
		"content":       planted + " says " + unique,
		"chapterNumber": json.Number([]string{"0", "1", "2.5", "17", "1000000"}[rand.IntN(5)]),
		"timestamp": time.Date(2026, 1, 1, 0, 0, rand.IntN(1_000_000), rand.IntN(1000)*1_000_000, time.UTC).Format(
			time.RFC3339Nano),
	}
}

// enter records an answer.
func (l *load) enter(c *command, a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.tries++; c.tries == 1 {
		l.commands = append(l.commands, c)
	}
	if a.err != nil {
		a.Status = 0
	}
	l.statuses[a.Status]++
	if !a.succeeded() {
		if a.err == nil && !a.unavailable() && (!l.gateway || !a.fromGateway()) {
			l.surprise("%s is answered with %d, want 200, 201 or 503 unavailable\n%s", c, a.Status, a.Body)
		}
		return
	}
	var got identifiers
	if err := json.Unmarshal(a.Body, &got); err != nil {
		l.surprise("%s: %v\n%s", c, err, a.Body)
		return
	}
	if a.Status == http.StatusCreated {
		if c.created {
			l.surprise("%s is created twice", c)
		}
		c.created = true
	}
	if c.answered == nil {
		c.answered = &got
		l.acknowledged++
	}
	if diff := cmp.Diff(*c.answered, got); diff != "" {
		l.surprise("%s has another answer (-before +now)\n%s", c, diff)
	}
}

// surprise fails the test; it prints only the first few messages.
func (l *load) surprise(format string, args ...any) {
	if l.surprises++; l.surprises <= 10 {
		l.t.Errorf(format, args...)
	}
}

// await waits for n more acknowledged commands.
func (l *load) await(n int) {
	l.t.Helper()
	acknowledged := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.acknowledged
	}
	want := acknowledged() + n
	testdb.Eventually(l.t, "commands are acknowledged", func() bool { return acknowledged() >= want })
}

// outcome counts commands by outcome.
type outcome struct{ acknowledged, unknown, unknownStored int }

// reconcile compares the answers with the log, and then with a replay of every command: acknowledged commands are
// recorded once with their identifiers, others at most once, and nothing else is. All comments on a title have one
// thread, all upserts one novel. Call it without load.
func (l *load) reconcile(r *Service, databaseURL string) (seen outcome) {
	l.t.Helper()
	stored, before := l.deliveries(databaseURL), map[*command]bool{}
	threads, novels := map[string]uuid.UUID{}, map[string]uuid.UUID{}
	for _, c := range l.commands {
		streams := stored[c.String()]
		delete(stored, c.String())
		before[c] = len(streams) == 1
		if len(streams) > 1 {
			l.t.Fatalf("%s is on record %d times", c, len(streams))
		}
		if c.answered == nil {
			seen.unknown++
			seen.unknownStored += len(streams)
			continue
		}
		seen.acknowledged++
		stream, named, id := c.answered.NovelID, novels, c.answered.NovelID
		if c.Path == PostsPath {
			stream, named, id = c.answered.PostID, threads, c.answered.ThreadID
		}
		if !slices.Equal(streams, []uuid.UUID{stream}) {
			l.t.Fatalf("%s was acknowledged with stream %s, and is in %v", c, stream, streams)
		}
		if known, ok := named[c.title]; ok && known != id {
			l.t.Fatalf("%q has %s and %s", c.title, known, id)
		}
		named[c.title] = id
		if c.parent != nil && (c.answered.ParentPostID == nil || *c.answered.ParentPostID != c.parent.answered.PostID) {
			l.t.Fatalf("the parent of %s is %v, want %s", c, c.answered.ParentPostID, c.parent.answered.PostID)
		}
	}
	for name := range stored {
		l.t.Fatalf("%s is on record and was never sent", name)
	}
	l.replay(r, before)
	return seen
}

// replay sends every command again. stored are the commands that are on record.
func (l *load) replay(r *Service, stored map[*command]bool) {
	l.t.Helper()
	began, work := time.Now(), make(chan *command)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for c := range work {
				a, repeated := r.send(l.t, c.Request), false
				for ; a.unavailable() && time.Since(began) < patience; repeated = true { // a stall of the machine: the same again
					time.Sleep(50 * time.Millisecond)
					a = r.send(l.t, c.Request)
				}
				isReplay := a.Status == http.StatusOK && a.Header.Get("Idempotent-Replayed") == "true" &&
					a.Header.Get("Idempotency-Mismatch") == ""
				isNew := a.succeeded() && a.Header.Get("Idempotent-Replayed") == ""
				if a.err != nil || stored[c] && !isReplay || !stored[c] && !isNew && (!repeated || !isReplay) {
					l.t.Errorf("replay of %s, on record before: %v, is answered with %d %v %v\n%s", c, stored[c], a.Status,
						a.Header, a.err, a.Body)
				}
				l.enter(c, a) // compares the identifiers
			}
		})
	}
	for _, c := range l.commands[:len(l.commands):len(l.commands)] {
		if l.t.Failed() {
			break
		}
		work <- c
	}
	close(work)
	all.Wait()
}

// deliveries returns the recorded commands of the partner: stream by path and key.
func (l *load) deliveries(databaseURL string) map[string][]uuid.UUID {
	l.t.Helper()
	source := "integrations/" + l.IntegrationID
	rows, _ := testdb.Connect(l.t, databaseURL).Query(l.t.Context(), // ForEachRow returns its error
		`SELECT CASE WHEN event_source LIKE '%/posts' THEN $2 ELSE $3 END || ' ' || event_id, stream_id FROM event_log
		WHERE event_source = ANY($1)`, []string{source + "/posts", source + "/novels"}, PostsPath, NovelsPath)
	found := map[string][]uuid.UUID{}
	var name string
	var stream uuid.UUID
	_, err := pgx.ForEachRow(rows, []any{&name, &stream}, func() error {
		found[name] = append(found[name], stream)
		return nil
	})
	if err != nil {
		l.t.Fatalf("read deliveries: %v", err)
	}
	return found
}
