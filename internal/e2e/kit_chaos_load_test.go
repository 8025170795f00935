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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/internal/testdb"
)

// newPartner registers a partner with both capabilities and very high limits; flags are added.
func newPartner(t testing.TB, databaseURL string, flags ...string) *Partner {
	t.Helper()
	staff := Attach("")
	staff.DatabaseURL = databaseURL
	made := staff.CreateIntegration(t, Unique("partner"), append([]string{
		"--capability", "novels", "--capability", "posts", "--posts-per-minute", "10000000", "--novels-per-minute",
		"10000000",
	}, flags...)...)
	t.Cleanup(staff.http.CloseIdleConnections)
	return &Partner{NewIntegration: made, Service: staff}
}

// answer is the answer to a request, or an error.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error // without a complete answer
	sent   time.Time
	took   time.Duration
}

// send sends a command once to the service at base. It returns an error in answer instead of failing the test. An error
// must not contain a secret.
func (p *Partner) send(t testing.TB, base, path, key string, body []byte, closing bool) (a answer) {
	a.sent = time.Now()
	defer func() { a.took = time.Since(a.sent) }()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, base+path, bytes.NewReader(body))
	if err != nil {
		a.err = err
		return a
	}
	request.GetBody = nil // so that the client does not retry
	request.Close = closing
	request.Header.Set("Authorization", "Bearer "+p.APIKey)
	request.Header.Set("Idempotency-Key", key)
	request.Header.Set("Content-Type", "application/json")
	response, err := p.Service.http.Do(request)
	if err != nil {
		a.err = err
		return a
	}
	defer func() { _ = response.Body.Close() }()
	a.status, a.header = response.StatusCode, response.Header
	a.body, a.err = io.ReadAll(response.Body)
	if a.status >= http.StatusBadRequest {
		wantNoSecret(t, "an error", a.body)
	}
	return a
}

// succeeded reports whether the command was acknowledged.
func (a answer) succeeded() bool {
	return a.err == nil && (a.status == http.StatusCreated || a.status == http.StatusOK)
}

// unavailable reports whether the answer is the right one during an outage: 503 with Retry-After.
func (a answer) unavailable() bool {
	return a.err == nil && a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") != "" &&
		bytes.Contains(a.body, []byte(`"code":"unavailable"`))
}

// fromGateway reports whether HAProxy has answered, because it had no answer of a service.
func (a answer) fromGateway() bool {
	return a.status >= http.StatusBadGateway && strings.HasPrefix(a.header.Get("Content-Type"), "text/html")
}

// refused reports whether the connection was refused or closed before an answer.
func (a answer) refused() bool {
	return a.status == 0 && errors.Is(a.err, io.EOF) || errors.Is(a.err, syscall.ECONNREFUSED) ||
		errors.Is(a.err, syscall.ECONNRESET) || errors.Is(a.err, syscall.EPIPE)
}

// command is a command and the knowledge about its execution.
type command struct {
	path, key string
	title     string
	body      []byte
	parent    *command // the comment that this one replies to

	tries    int
	created  bool         // one of the answers was 201
	answered *identifiers // nil while nothing was acknowledged
}

// identifiers are the identifiers in an answer, of any operation.
type identifiers struct {
	NovelID      uuid.UUID  `json:"novelId"`
	Slug         string     `json:"slug"`
	PostID       uuid.UUID  `json:"postId"`
	ThreadID     uuid.UUID  `json:"threadId"`
	ParentPostID *uuid.UUID `json:"parentPostId"`
	URL          string     `json:"url"`
}

// stream returns the stream of the command's own event.
func (i *identifiers) stream() uuid.UUID {
	if i.PostID != uuid.Nil {
		return i.PostID
	}
	return i.NovelID
}

func (i *identifiers) equal(other *identifiers) bool {
	a, b := *i, *other
	parents := a.ParentPostID == nil && b.ParentPostID == nil ||
		a.ParentPostID != nil && b.ParentPostID != nil && *a.ParentPostID == *b.ParentPostID
	a.ParentPostID, b.ParentPostID = nil, nil
	return parents && a == b
}

// deliveryBook records what a partner has sent, and the answers.
type deliveryBook struct {
	t testing.TB

	mu           sync.Mutex
	commands     []*command
	acknowledged int
	statuses     map[int]int // 0: no answer
	surprises    int
	gateway      bool // answers of HAProxy are no answers of the service; set before use
}

func newDeliveryBook(t testing.TB) *deliveryBook { return &deliveryBook{t: t, statuses: map[int]int{}} }

// enter records an answer.
func (l *deliveryBook) enter(c *command, a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.tries++; c.tries == 1 {
		l.commands = append(l.commands, c)
	}
	if a.err != nil {
		a.status = 0
	}
	l.statuses[a.status]++
	if !a.succeeded() {
		if a.err == nil && !a.unavailable() && (!l.gateway || !a.fromGateway()) {
			l.surprise("%s %s is answered with %d, want 200, 201 or 503 unavailable\n%s", c.path, c.key, a.status, a.body)
		}
		return
	}
	var got identifiers
	if err := json.Unmarshal(a.body, &got); err != nil {
		l.surprise("%s %s: %v\n%s", c.path, c.key, err, a.body)
		return
	}
	if a.status == http.StatusCreated {
		if c.created {
			l.surprise("%s %s is created twice", c.path, c.key)
		}
		c.created = true
	}
	if c.answered == nil {
		c.answered = &got
		l.acknowledged++
		return
	}
	if !c.answered.equal(&got) {
		l.surprise("%s %s is answered with %+v, and before with %+v", c.path, c.key, got, *c.answered)
	}
}

// surprise fails the test; it prints only the first few messages.
func (l *deliveryBook) surprise(format string, args ...any) {
	if l.surprises++; l.surprises <= 10 {
		l.t.Errorf(format, args...)
	}
}

// await waits for n more acknowledged commands.
func (l *deliveryBook) await(n int) {
	l.t.Helper()
	_, before := l.count()
	testdb.Eventually(l.t, "commands are acknowledged", func() bool {
		_, acknowledged := l.count()
		return acknowledged >= before+n
	})
}

func (l *deliveryBook) count() (sent, acknowledged int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.commands), l.acknowledged
}

// load is a partner platform with some connections: comments on known and new novels, replies, upserts. Half of the
// commands without an answer are sent again with the same key.
type load struct {
	*Partner
	book   *deliveryBook
	target atomic.Pointer[[]string] // addresses of the services
	watch  func(a answer)           // sees every answer; set before start
	pause  time.Duration            // after a success; set before start

	stubborn bool // every command is sent again until it is acknowledged; set before start

	stopped atomic.Bool
	made    atomic.Int64 // number of commands
	all     sync.WaitGroup
	name    string
}

// The connections share some novels, and change to new ones after a while.
const (
	sharedTitles = 12
	waveLength   = 400 // commands
)

func newLoad(t testing.TB, p *Partner) *load {
	t.Helper()
	return &load{Partner: p, book: newDeliveryBook(t), watch: func(answer) {}, name: Unique("Load")}
}

// underLoad starts a service on its own server, and 16 connections that send commands with a pause after each success.
func underLoad(t testing.TB, pause time.Duration) (*server, *Service, *load, *witness) {
	t.Helper()
	database := startServer(t, nil)
	service := serve(t, database.url())
	l, w := newLoad(t, newPartner(t, database.url())), &witness{stalls: watchStalls(t)}
	l.watch, l.pause = w.see, pause
	l.aim(service)
	l.start(16)
	return database, service, l, w
}

// settle ends the load and compares log and tables with the answers.
func (l *load) settle(t testing.TB, service *Service, databaseURL string) outcome {
	t.Helper()
	l.stop()
	seen := l.book.reconcile(t, l.Partner, service, databaseURL)
	count := wantSoundLog(t, databaseURL)
	service.metrics(t)
	t.Logf("%d acknowledged, %d without an answer, of which %d are on record; %d events; answers %v", seen.acknowledged,
		seen.unknown, seen.unknownStored, count, l.book.statuses)
	return seen
}

// start starts connections, which send to the current target.
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

// aim sets the target of commands.
func (l *load) aim(replicas ...*Service) {
	urls := make([]string, len(replicas))
	for i, r := range replicas {
		urls[i] = r.URL
	}
	l.target.Store(&urls)
}

// somewhere returns one of the services.
func (l *load) somewhere() string {
	urls := *l.target.Load()
	return urls[rand.IntN(len(urls))]
}

func (l *load) connection(number int) {
	var comments []*command // acknowledged ones: parents of replies
	for n := 0; !l.stopped.Load(); n++ {
		c := l.next(fmt.Sprintf("%d-%d", number, n), comments)
		for {
			a := l.send(l.book.t, l.somewhere(), c.path, c.key, c.body, false)
			l.book.enter(c, a)
			l.watch(a)
			if a.succeeded() {
				if c.path == PostsPath && len(comments) < 200 {
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
	c := &command{
		key:   strings.ReplaceAll(l.name+"-"+unique, " ", "-"),
		title: fmt.Sprintf("%s %d-%d", l.name, l.made.Add(1)/waveLength, rand.IntN(sharedTitles)),
	}
	dice := rand.IntN(100)
	if dice%7 == 0 {
		c.title = l.name + " alone " + unique
	}
	var body map[string]any
	if dice < 80 {
		c.path = PostsPath
		body = comment(c.title, fmt.Sprintf("reader %d", rand.IntN(50)), unique)
		if dice < 30 && len(comments) > 0 {
			c.parent = comments[rand.IntN(len(comments))]
			c.title = c.parent.title
			body["novel"], body["parent_uuid"] = c.title, c.parent.key
		}
	} else {
		c.path = NovelsPath
		body = map[string]any{
			"novel": c.title, "author": "Author " + unique, "synopsis": "Synopsis " + unique, "genres": []string{"a", unique},
			"readingStatus": []string{"ongoing", "completed", "hiatus"}[rand.IntN(3)],
		}
	}
	c.body = encode(body)
	return c
}

// comment returns the members of a comment, with planted words that must not leak.
func comment(title, reader, unique string) map[string]any {
	return map[string]any{
		"uuid": planted + " " + reader, "username": planted + " " + unique, "novel": title,
		"content":       planted + " says " + unique,
		"chapterNumber": json.Number([]string{"0", "1", "2.5", "17", "1000000"}[rand.IntN(5)]),
		"timestamp": time.Date(2026, 1, 1, 0, 0, rand.IntN(1_000_000), rand.IntN(1000)*1_000_000, time.UTC).Format(
			time.RFC3339Nano),
	}
}

func encode(body any) []byte {
	encoded, err := json.Marshal(body)
	if err != nil {
		panic(err) // maps of strings and numbers
	}
	return encoded
}
