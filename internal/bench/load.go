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
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// loadConfig configures the load generator. With a rate, it sends requests at regular times; otherwise each connection
// sends its next request as soon as it has the answer to the last one (a closed loop).
type loadConfig struct {
	Host, APIKey string
	Path         string // path that readers request; "" sends comments
	Connections  int
	Duration     time.Duration // no request starts later
	Requests     int           // maximum number of requests; 0: no limit
	Rate         float64       // requests per second of all connections; 0: a closed loop
	Titles       int           // number of novels with comments
	Replies      float64       // share of comments that are replies, 0 to 1
	Round        uint16        // part of the idempotency keys, which must be unique
}

// loadOutcome is the result of a load.
type loadOutcome struct {
	Accepted int
	Failed   map[string]int // number of all other answers, by description
	Elapsed  time.Duration  // until the last answer
	P50, P99 time.Duration
	Bytes    int // size of the body that every reader gets
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
	newest  []atomic.Uint64 // by title: id of the last accepted comment
	clients []*client
}

func openLoad(ctx context.Context, config loadConfig) (*load, error) {
	l := &load{config: config, titles: make([]string, config.Titles), newest: make([]atomic.Uint64, config.Titles)}
	for i := range l.titles {
		l.titles[i] = titleOf(i)
		l.newest[i].Store(uint64(newCommentID(firstRound, 0, i)))
	}
	for i := range config.Connections {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", config.Host)
		if err != nil {
			l.close()
			return nil, fmt.Errorf("connect: %w", err)
		}
		l.clients = append(l.clients, &client{
			load: l, index: i, conn: conn, reader: bufio.NewReaderSize(conn, 16<<10),
			composer: newComposer(config, i), failed: map[string]int{},
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
	work := (*client).comment
	if l.config.Path != "" {
		work = (*client).read
	}
	err := l.each(func(c *client) error { return c.repeat(start.Add(l.config.Duration), work) })
	outcome := loadOutcome{Elapsed: time.Since(start), Failed: map[string]int{}}
	var latencies []time.Duration
	for _, c := range l.clients {
		latencies = append(latencies, c.latencies...)
		for what, n := range c.failed {
			outcome.Failed[what] += n
		}
		outcome.Bytes = c.length
	}
	slices.Sort(latencies)
	outcome.Accepted = len(latencies)
	outcome.P50, outcome.P99 = percentile(latencies, 50), percentile(latencies, 99)
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
	config.Connections = 8
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
			id := newCommentID(firstRound, 0, i)
			status, body, err := c.exchange(c.composer.compose(id, l.titles[i], false, 0, time.Now()))
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
	composer  *composer
	body      []byte
	length    int             // of the first body that a reader got
	latencies []time.Duration // of accepted requests
	failed    map[string]int
}

// repeat calls work until end, or until the connection has sent its share of the requests. work returns a description
// of an unexpected answer, or "".
func (c *client) repeat(end time.Time, work func(*client, time.Time) (string, error)) error {
	const timeToDrain = 10 * time.Second
	if err := c.conn.SetDeadline(end.Add(timeToDrain)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	limit := math.MaxInt
	if all := c.load.config; all.Requests > 0 {
		limit = (all.Requests + c.index) / all.Connections // the sum over all connections is Requests
	}
	begin, interval := time.Now(), time.Duration(0)
	if all := c.load.config; all.Rate > 0 {
		interval = time.Duration(float64(time.Second) * float64(all.Connections) / all.Rate)
		begin = begin.Add(interval * time.Duration(c.index) / time.Duration(all.Connections))
	}
	for next := begin; begin.Before(end) && c.ordinal < limit; {
		if interval > 0 { // the latency of a late request counts from the time at which it was due
			time.Sleep(time.Until(next))
			begin, next = next, next.Add(interval)
		}
		c.ordinal++
		failure, err := work(c, begin)
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

// comment sends the next comment.
func (c *client) comment(now time.Time) (failure string, err error) {
	const sampling = 32 // one of so many answers is checked in full
	id := newCommentID(c.load.config.Round, c.index, c.ordinal)
	title := c.composer.rng.IntN(len(c.load.titles))
	reply := c.composer.rng.Float64() < c.load.config.Replies
	parent := commentID(c.load.newest[title].Load())
	status, body, err := c.exchange(c.composer.compose(id, c.load.titles[title], reply, parent, now))
	switch {
	case err != nil:
		return "", err
	case status != http.StatusCreated:
		return "status " + strconv.Itoa(status), nil
	case c.ordinal%sampling == 1 && !isAccepted(body, reply):
		return "unexpected body: " + string(body), nil
	}
	c.load.newest[title].Store(uint64(id))
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

// read requests the path. All answers must have the same length.
func (c *client) read(time.Time) (failure string, err error) {
	status, body, err := c.exchange(c.composer.get)
	switch {
	case err != nil:
		return "", err
	case status != http.StatusOK:
		return "status " + strconv.Itoa(status), nil
	case c.length == 0:
		c.length = len(body)
	case len(body) != c.length:
		return "a body of another length", nil
	}
	return "", nil
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
