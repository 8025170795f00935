package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// loadConfig configures the load generator. Each connection sends its next comment as soon as it has the answer to the
// last one (a closed loop).
type loadConfig struct {
	Host, APIKey string
	Connections  int
	Duration     time.Duration // no request starts later
	Requests     int           // maximum number of requests; 0: no limit
	Titles       int           // number of novels with comments
	Replies      float64       // share of comments that are replies, 0 to 1
	Round        uint16        // part of the idempotency keys, which must be unique; 0 prepares the novels
}

// loadOutcome is the result of a load.
type loadOutcome struct {
	Accepted int
	Failed   map[string]int // number of all other answers, by description
	Elapsed  time.Duration  // until the last answer
	P50, P99 time.Duration
}

// A load process prints loadReady when it is connected, starts when its standard input ends, and prints loadResult
// before its loadOutcome.
const (
	loadReady  = "ready"
	loadResult = "result "
)

// loadCommand is `bench load`.
type loadCommand struct {
	Config string `arg:""`
}

// Run connects, waits for the start, and prints the result.
func (c *loadCommand) Run(ctx context.Context) error {
	// One processor is more than enough. More threads would take time from the measured processes.
	runtime.GOMAXPROCS(1)
	var config loadConfig
	if err := json.Unmarshal([]byte(c.Config), &config); err != nil {
		return fmt.Errorf("decode the load: %w", err)
	}
	l, err := openLoad(ctx, config)
	if err != nil {
		return err
	}
	defer l.close()
	fmt.Println(loadReady)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return fmt.Errorf("wait for the start: %w", err)
	}
	outcome, err := l.run()
	if err != nil {
		return err
	}
	fmt.Print(loadResult)
	return json.NewEncoder(os.Stdout).Encode(outcome)
}

// load is a set of open connections.
type load struct {
	config  loadConfig
	titles  []string
	newest  []atomic.Uint64 // by title: number of the last accepted comment
	clients []*client
}

func openLoad(ctx context.Context, config loadConfig) (*load, error) {
	l := &load{config: config, titles: make([]string, config.Titles), newest: make([]atomic.Uint64, config.Titles)}
	for i := range l.titles {
		l.titles[i] = titleOf(i)
		l.newest[i].Store(newCommentID(0, 0, i))
	}
	for i := range config.Connections {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", config.Host)
		if err != nil {
			l.close()
			return nil, fmt.Errorf("connect: %w", err)
		}
		l.clients = append(l.clients, &client{
			load: l, index: i, conn: conn, reader: bufio.NewReaderSize(conn, 16<<10),
			failed: map[string]int{},
			head: "POST /api/integrations/posts HTTP/1.1\r\nHost: " + config.Host + "\r\nAuthorization: Bearer " +
				config.APIKey + "\r\nContent-Type: application/json\r\nIdempotency-Key: ",
			rng: rand.New(rand.NewPCG(uint64(config.Round), uint64(i))), //nolint:gosec // not a secret, never negative
		})
	}
	return l, nil
}

func (l *load) close() {
	for _, c := range l.clients {
		_ = c.conn.Close() // no request is in flight
	}
}

// run sends requests on all connections for the configured duration.
func (l *load) run() (loadOutcome, error) {
	start := time.Now()
	err := l.each(func(c *client) error { return c.repeat(start.Add(l.config.Duration)) })
	outcome := loadOutcome{Elapsed: time.Since(start), Failed: map[string]int{}}
	var latencies []time.Duration
	for _, c := range l.clients {
		latencies = append(latencies, c.latencies...)
		for what, n := range c.failed {
			outcome.Failed[what] += n
		}
	}
	slices.Sort(latencies)
	outcome.Accepted = len(latencies)
	if n := len(latencies); n > 0 { // nearest rank
		outcome.P50, outcome.P99 = latencies[(n+1)/2-1], latencies[(99*n+99)/100-1]
	}
	return outcome, err
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
func prepare(ctx context.Context, config loadConfig) error {
	l, err := openLoad(ctx, config)
	if err != nil {
		return err
	}
	defer l.close()
	err = l.each(func(c *client) error {
		if err := c.conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			return fmt.Errorf("set deadline: %w", err)
		}
		for i := c.index; i < len(l.titles); i += len(l.clients) {
			status, body, err := c.exchange(c.compose(newCommentID(0, 0, i), l.titles[i], false, 0, time.Now()))
			if err == nil && status != http.StatusCreated && status != http.StatusOK {
				err = fmt.Errorf("%w: status %d: %s", errAnswer, status, body)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("prepare novels: %w", err)
	}
	return nil
}

// client is one connection with its results. It writes requests and parses answers by hand: the generator shares the
// processors with the measured processes, and net/http would take several times as much time.
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
func (c *client) repeat(end time.Time) error {
	const timeToDrain = 10 * time.Second
	if err := c.conn.SetDeadline(end.Add(timeToDrain)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	limit := math.MaxInt
	if all := c.load.config; all.Requests > 0 {
		limit = (all.Requests + c.index) / all.Connections // the sum over all connections is Requests
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
	id := newCommentID(c.load.config.Round, c.index, c.ordinal)
	title := c.rng.IntN(len(c.load.titles))
	reply := c.rng.Float64() < c.load.config.Replies
	status, body, err := c.exchange(c.compose(id, c.load.titles[title], reply, c.load.newest[title].Load(), now))
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

// compose returns the request that delivers a comment of the last hour, valid until the next call. parent is only used
// for a reply.
func (c *client) compose(id uint64, title string, reply bool, parent uint64, now time.Time) []byte {
	const users, chapters, numbered = 5000, 400, 300
	written := now.Add(-time.Duration(c.rng.Int64N(int64(time.Hour)))).UTC().Format(time.RFC3339)
	b := fmt.Appendf(c.body[:0], `{"uuid":"user-%d","username":"Reader %[1]d","novel":"%s","content":"%s","timestamp":"%s"`,
		c.rng.IntN(users), title, contents()[c.rng.IntN(len(contents()))], written)
	if chapter := c.rng.IntN(chapters); chapter < numbered { // the others are about the novel as a whole
		b = fmt.Appendf(b, `,"chapterNumber":%d`, chapter)
	}
	if reply {
		b = append(appendKey(append(b, `,"parent_uuid":"`...), parent), '"')
	}
	c.body = append(b, '}')
	r := appendKey(append(c.request[:0], c.head...), id)
	c.request = append(fmt.Appendf(r, "\r\nContent-Length: %d\r\n\r\n", len(c.body)), c.body...)
	return c.request
}

var errAnswer = errors.New("unexpected answer")

// exchange sends a request and reads the answer, which has a Content-Length (RFC 9112). The body is valid until the
// next call.
func (c *client) exchange(request []byte) (status int, body []byte, err error) {
	if _, err := c.conn.Write(request); err != nil {
		return 0, nil, fmt.Errorf("send: %w", err)
	}
	length := -1
	for {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return 0, nil, fmt.Errorf("receive: %w", err)
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		if text, ok := bytes.CutPrefix(line, []byte("HTTP/1.1 ")); ok && status == 0 && len(text) >= 3 {
			status, err = strconv.Atoi(string(text[:3]))
		} else if text, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			length, err = strconv.Atoi(string(text))
		}
		if err != nil {
			return 0, nil, fmt.Errorf("%w: %q", errAnswer, line)
		}
	}
	const maxBody = 1 << 20
	if status == 0 || length < 0 || length > maxBody {
		return 0, nil, fmt.Errorf("%w: status %d with %d bytes", errAnswer, status, length)
	}
	c.body = slices.Grow(c.body[:0], length)[:length]
	if _, err := io.ReadFull(c.reader, c.body); err != nil {
		return 0, nil, fmt.Errorf("receive: %w", err)
	}
	return status, c.body, nil
}
