package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// load is a partner platform with some connections: comments on known novels and on new ones, replies, upserts. What
// gets no answer is repeated with the same key half of the time, and left in the dark otherwise.
type load struct {
	*Partner
	book   *deliveryBook
	target atomic.Pointer[[]string] // where services listen now
	watch  func(a answer)           // sees every answer; set before start
	pause  time.Duration            // of a connection after a success; set before start

	stopped atomic.Bool
	made    atomic.Int64 // commands made up
	all     sync.WaitGroup
	name    string
}

// The connections have some novels in common, and turn to new ones after a while.
const (
	sharedTitles = 12
	waveLength   = 400 // commands
)

func newLoad(t testing.TB, p *Partner) *load {
	t.Helper()
	return &load{Partner: p, book: newDeliveryBook(t), watch: func(answer) {}, name: Unique("Load")}
}

// underLoad starts a service on a server of its own and sends to it over 16 connections, which pause after a success.
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

// settle ends the load and holds log and tables against what was answered.
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

// start begins to send, over some connections, to whatever target says at the time.
func (l *load) start(connections int) {
	for i := range connections {
		l.all.Go(func() { l.connection(i) })
	}
}

// stop waits until every connection has its last answer.
func (l *load) stop() {
	l.stopped.Store(true)
	l.all.Wait()
}

// aim makes these replicas the ones that commands are sent to.
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
			if l.stopped.Load() || rand.IntN(2) == 0 {
				break
			}
		}
	}
}

// next makes a command up.
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

// comment returns the members of a comment, with what must not leak planted in it.
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
