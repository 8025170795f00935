package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	titles  = 1000 // novels with comments
	replies = 0.3  // share of comments that are replies
)

// load is a set of open connections to a contestant. Each sends its next comment as soon as it has the answer to the
// last one (a closed loop).
type load struct {
	round   uint16                // part of the idempotency keys, which must be unique; 0 prepares the novels
	newest  [titles]atomic.Uint64 // by title: number of the last accepted comment
	clients []*client
	release func() bool // of the AfterFunc that closes the connections
}

// openLoad connects. The end of ctx closes the connections.
func openLoad(ctx context.Context, c *contestant, connections int) (*load, error) {
	l := &load{round: c.rounds}
	for i := range l.newest {
		l.newest[i].Store(newCommentID(0, 0, i))
	}
	host := strings.TrimPrefix(c.url, "http://")
	for i := range connections {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", host)
		if err != nil {
			l.close()
			return nil, fmt.Errorf("connect: %w", err)
		}
		l.clients = append(l.clients, &client{
			load: l, index: i, conn: conn, reader: bufio.NewReaderSize(conn, 16<<10), failed: map[string]int{},
			head: "POST /api/integrations/posts HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer " +
				c.apiKey + "\r\nContent-Type: application/json\r\nIdempotency-Key: ",
			rng: rand.New(rand.NewPCG(uint64(l.round), uint64(i))), //nolint:gosec // not a secret, never negative
		})
	}
	l.release = context.AfterFunc(ctx, l.close)
	return l, nil
}

func (l *load) close() {
	if l.release != nil {
		l.release()
	}
	for _, c := range l.clients {
		_ = c.conn.Close() // no request is in flight, unless the program was interrupted
	}
}

// run sends requests on all connections for a time, or until their number is reached (0: no limit). It returns the
// figures that clients see.
func (l *load) run(duration time.Duration, requests int) (f figures, err error) {
	start := time.Now()
	err = l.each(func(c *client) error { return c.repeat(start.Add(duration), requests) })
	elapsed := time.Since(start)
	f.failed = map[string]int{}
	var latencies []time.Duration
	for _, c := range l.clients {
		latencies = append(latencies, c.latencies...)
		for what, n := range c.failed {
			f.failed[what] += n
		}
	}
	slices.Sort(latencies)
	f.accepted = len(latencies)
	f.perSecond = float64(f.accepted) / elapsed.Seconds()
	if n := len(latencies); n > 0 { // nearest rank
		f.p50, f.p99 = latencies[(n+1)/2-1], latencies[(99*n+99)/100-1]
	}
	return f, err
}

func (l *load) each(work func(*client) error) error {
	errs := make([]error, len(l.clients))
	var wg sync.WaitGroup
	for i, c := range l.clients {
		wg.Go(func() { errs[i] = work(c) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// prepare sends one comment to each novel. It creates the novel and its discussion, and is the parent of the first
// replies. Repeating it changes nothing.
func (l *load) prepare() error {
	return l.each(func(c *client) error {
		if err := c.conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			return fmt.Errorf("set deadline: %w", err)
		}
		for i := c.index; i < titles; i += len(l.clients) {
			status, body, err := c.exchange(c.compose(newCommentID(0, 0, i), i, false, time.Now()))
			if err == nil && status != http.StatusCreated && status != http.StatusOK {
				err = fmt.Errorf("status %d: %s", status, body)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// client is one connection with its results. It writes requests and reads answers by itself: the load shares the
// processors with the measured processes, and http.Client would take several times as much time.
type client struct {
	load      *load
	index     int
	ordinal   int
	conn      net.Conn
	reader    *bufio.Reader
	head      string // of a request, up to the value of Idempotency-Key
	rng       *rand.Rand
	request   []byte
	body      []byte
	latencies []time.Duration // of accepted requests
	failed    map[string]int
}

// repeat sends comments until end, or until the connection has sent its share of the requests.
func (c *client) repeat(end time.Time, requests int) error {
	const timeToDrain = 10 * time.Second
	if err := c.conn.SetDeadline(end.Add(timeToDrain)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	limit := math.MaxInt
	if all := len(c.load.clients); requests > 0 {
		limit = (requests + c.index) / all // the sum over all connections is requests
	}
	for begin := time.Now(); begin.Before(end) && c.ordinal < limit; {
		c.ordinal++
		failure, err := c.comment(begin)
		if err != nil {
			return err
		}
		now := time.Now()
		if failure == "" {
			c.latencies = append(c.latencies, now.Sub(begin))
		} else {
			c.failed[failure]++
		}
		begin = now
	}
	return nil
}

// comment sends the next comment. It returns a description of an unexpected answer, or "".
func (c *client) comment(now time.Time) (failure string, err error) {
	const sampling = 32 // one of so many answers is checked in full
	id, title, reply := newCommentID(c.load.round, c.index, c.ordinal), c.rng.IntN(titles), c.rng.Float64() < replies
	status, body, err := c.exchange(c.compose(id, title, reply, now))
	switch {
	case err != nil:
		return "", err
	case status != http.StatusCreated:
		return "status " + strconv.Itoa(status), nil
	case c.ordinal%sampling == 1 && !isAccepted(body, reply):
		return "unexpected body: " + string(body), nil
	}
	c.load.newest[title].Store(id)
	return "", nil
}

// isAccepted reports whether a body is the answer to an accepted comment: it names a parent if the comment is a reply.
func isAccepted(body []byte, reply bool) bool {
	var post struct {
		Created               bool
		PostID, ThreadID, URL string
		ParentPostID          *string
	}
	err := json.Unmarshal(body, &post)
	return err == nil && post.Created && post.PostID != "" && post.ThreadID != "" && post.URL != "" &&
		(post.ParentPostID != nil) == reply
}

// newCommentID packs the round, the connection and the ordinal number of a comment into 64 bits.
func newCommentID(round uint16, connection, ordinal int) uint64 {
	return uint64(round)<<48 | uint64(connection)<<36 | uint64(ordinal) //nolint:gosec // both are small
}

// appendKey appends the idempotency key of a comment. It looks random, like the event ids of partners.
func appendKey(b []byte, id uint64) []byte {
	// The finaliser of SplitMix64 is a bijection, so different comments have different keys.
	z := id + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return fmt.Appendf(b, "comment-%016x", z^z>>31)
}

// titleOf returns the title of novel i, which no other novel has.
func titleOf(i int) string {
	begin := []string{"The Lantern", "A Winter", "The Cartographer", "Salt and Ash", "Children", "The Quiet Sword"}
	end := []string{"of Ashford", "Without Kings", "at the Edge of Rain", "of the Hollow Sea", "in Exile"}
	return begin[i%len(begin)] + " " + end[i/len(begin)%len(end)] + ", Book " + strconv.Itoa(i+1)
}

// contents are the texts of the comments, of 250 to 350 characters.
var contents = sync.OnceValue(func() []string {
	words := strings.Fields(`the chapter was slower than I expected but ending made up for it author really knows how to write
		dialogue and this character keeps growing on me after that battle scene translation feels smooth again thanks waiting
		next one did anyone else notice hint about sister`)
	rng := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // not a secret
	list := make([]string, 512)
	for i := range list {
		size := 250 + rng.IntN(90)
		text := make([]byte, 0, 350)
		for len(text) < size {
			text = append(text, words[rng.IntN(len(words))]...)
			if rng.IntN(9) == 0 {
				text = append(text, '.')
			}
			text = append(text, ' ')
		}
		list[i] = string(append(text[:len(text)-1], '!'))
	}
	return list
})

// compose returns the request that delivers a comment of the last hour, valid until the next call. A reply answers the
// newest accepted comment on the novel.
func (c *client) compose(id uint64, title int, reply bool, now time.Time) []byte {
	const users, chapters, numbered = 5000, 400, 300
	written := now.Add(-time.Duration(c.rng.Int64N(int64(time.Hour)))).UTC().Format(time.RFC3339)
	b := fmt.Appendf(c.body[:0], `{"uuid":"user-%d","username":"Reader %[1]d","novel":"%s","content":"%s","timestamp":"%s"`,
		c.rng.IntN(users), titleOf(title), contents()[c.rng.IntN(len(contents()))], written)
	if chapter := c.rng.IntN(chapters); chapter < numbered { // the others are about the novel as a whole
		b = fmt.Appendf(b, `,"chapterNumber":%d`, chapter)
	}
	if reply {
		b = append(appendKey(append(b, `,"parent_uuid":"`...), c.load.newest[title].Load()), '"')
	}
	c.body = append(b, '}')
	r := appendKey(append(c.request[:0], c.head...), id)
	c.request = append(fmt.Appendf(r, "\r\nContent-Length: %d\r\n\r\n", len(c.body)), c.body...)
	return c.request
}

// exchange sends a request and reads the answer.
func (c *client) exchange(request []byte) (status int, body []byte, err error) {
	if _, err := c.conn.Write(request); err != nil {
		return 0, nil, fmt.Errorf("send: %w", err)
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("receive: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // it was read to its end
	if body, err = io.ReadAll(response.Body); err != nil {
		return 0, nil, fmt.Errorf("receive: %w", err)
	}
	return response.StatusCode, body, nil
}
