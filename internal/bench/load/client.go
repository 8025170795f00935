package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// sampling is how many answers share one look at the body.
const sampling = 32

// client is one connection with what it has seen.
type client struct {
	load      *Load
	index     int
	conn      net.Conn
	reader    *bufio.Reader
	composer  *composer
	buffer    []byte
	latencies []time.Duration // of accepted comments
	failed    map[string]int
}

func (l *Load) dial(ctx context.Context, index int, contents []string) (*client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", l.config.Host)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	rng := rand.New(rand.NewPCG(uint64(l.config.Run), uint64(index))) //nolint:gosec // not a secret, never negative
	return &client{
		load: l, index: index, conn: conn, reader: bufio.NewReaderSize(conn, 4<<10), buffer: make([]byte, 4<<10),
		composer: newComposer(l.config.Host, l.config.APIKey, contents, rng),
		failed:   map[string]int{}, latencies: make([]time.Duration, 0, 1<<12),
	}, nil
}

// run sends one comment after the other until end.
func (c *client) run(end time.Time) error {
	if err := c.conn.SetDeadline(end.Add(timeToDrain)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	begin := c.load.config.Now()
	for ordinal := 1; begin.Before(end); ordinal++ {
		own := newOrigin(c.load.config.Run, c.index, ordinal)
		title := c.composer.rng.IntN(len(c.load.titles))
		reply := c.composer.rng.Float64() < c.load.config.Replies
		parent := origin(c.load.newest[title].Load())
		answer, err := c.exchange(c.composer.compose(own, c.load.titles[title], reply, parent, begin))
		if err != nil {
			return err
		}
		now := c.load.config.Now()
		switch {
		case answer.status != http.StatusCreated:
			c.failed["status "+strconv.Itoa(answer.status)]++
		case ordinal%sampling == 1 && !sane(answer.body, reply):
			c.failed["unexpected body: "+string(answer.body)]++
		default:
			c.latencies = append(c.latencies, now.Sub(begin))
			c.load.newest[title].Store(uint64(own))
		}
		begin = now
	}
	return nil
}

var errClosed = errors.New("the server closes the connection")

func (c *client) exchange(request []byte) (response, error) {
	if _, err := c.conn.Write(request); err != nil {
		return response{}, fmt.Errorf("send: %w", err)
	}
	answer, err := readResponse(c.reader, c.buffer)
	if err != nil {
		return response{}, fmt.Errorf("receive: %w", err)
	}
	if answer.last {
		return response{}, fmt.Errorf("%w: status %d: %s", errClosed, answer.status, answer.body)
	}
	return answer, nil
}

// sane reports whether a body answers an accepted comment; a reply must have found its parent.
func sane(body []byte, reply bool) bool {
	var post struct {
		Created      bool       `json:"created"`
		PostID       uuid.UUID  `json:"postId"`
		ThreadID     uuid.UUID  `json:"threadId"`
		ParentPostID *uuid.UUID `json:"parentPostId"`
		URL          string     `json:"url"`
	}
	err := json.Unmarshal(body, &post)
	return err == nil && post.Created && post.PostID != uuid.Nil && post.ThreadID != uuid.Nil && post.URL != "" &&
		(post.ParentPostID != nil) == reply
}

var errRefused = errors.New("a comment was not accepted")

// prepare sends the first comment to every stride-th novel from first on.
func (c *client) prepare(first, stride int) error {
	now := c.load.config.Now()
	if err := c.conn.SetDeadline(now.Add(c.load.config.Duration)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	for i := first; i < len(c.load.titles); i += stride {
		answer, err := c.exchange(c.composer.compose(newOrigin(0, 0, i), c.load.titles[i], false, 0, now))
		if err != nil {
			return err
		}
		if answer.status != http.StatusCreated && answer.status != http.StatusOK {
			return fmt.Errorf("%w: status %d: %s", errRefused, answer.status, answer.body)
		}
	}
	return nil
}
