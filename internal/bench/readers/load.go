package readers

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"novelgate/internal/bench/stats"
)

// Load is readers that ask for one address, each over a connection of its own, one request after the other.
type Load struct {
	Host, Path  string
	Connections int
	Now         func() time.Time
}

// Result is what a round came to.
type Result struct {
	PerSecond float64
	P50, P99  time.Duration
	Bytes     int // of a body
}

// Run reads for a while. Every answer must be 200, and as long as the first.
func (l *Load) Run(ctx context.Context, duration time.Duration) (Result, error) {
	readers := make([]reader, l.Connections)
	for i := range readers {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", l.Host)
		if err != nil {
			return Result{}, fmt.Errorf("connect: %w", err)
		}
		defer func() { _ = conn.Close() }() // nothing is on its way any more
		readers[i] = reader{conn: conn, answers: bufio.NewReaderSize(conn, 64<<10), now: l.Now}
	}
	request := []byte("GET " + l.Path + " HTTP/1.1\r\nHost: " + l.Host + "\r\n\r\n")
	start := l.Now()
	end := start.Add(duration)
	errs := make([]error, len(readers))
	var wg sync.WaitGroup
	for i := range readers {
		wg.Go(func() { errs[i] = readers[i].run(request, end) })
	}
	wg.Wait()
	elapsed := l.Now().Sub(start)
	var all []time.Duration
	for i := range readers {
		all = append(all, readers[i].latencies...)
	}
	slices.Sort(all)
	return Result{
		PerSecond: float64(len(all)) / elapsed.Seconds(), P50: stats.Percentile(all, 50), P99: stats.Percentile(all, 99),
		Bytes: readers[0].length,
	}, errors.Join(errs...)
}

type reader struct {
	conn      net.Conn
	answers   *bufio.Reader
	now       func() time.Time
	latencies []time.Duration
	length    int
}

func (r *reader) run(request []byte, end time.Time) error {
	for begin := r.now(); begin.Before(end); {
		if _, err := r.conn.Write(request); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		if err := r.receive(); err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		now := r.now()
		r.latencies = append(r.latencies, now.Sub(begin))
		begin = now
	}
	return nil
}

var errAnswer = errors.New("not the answer that was expected")

func (r *reader) receive() error {
	length := -1
	for first := true; ; first = false {
		line, err := r.answers.ReadSlice('\n')
		if err != nil {
			return err //nolint:wrapcheck // run says what was going on
		}
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
			return fmt.Errorf("%w: %q", errAnswer, line)
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return fmt.Errorf("%w: %q", errAnswer, line)
			}
		}
		if len(line) == 2 {
			break
		}
	}
	if length < 0 || r.length > 0 && length != r.length {
		return fmt.Errorf("%w: %d bytes, then %d", errAnswer, r.length, length)
	}
	r.length = length
	_, err := io.CopyN(io.Discard, r.answers, int64(length))
	return err //nolint:wrapcheck // likewise
}
