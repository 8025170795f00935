package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"novelgate/events/relay"
	"novelgate/internal/natsserver"
)

// relayCommand is `bench relay`.
type relayCommand struct {
	testbedFlags
	Servers     int           `default:"3" help:"NATS servers, each in its own process; all store each message."`
	Connections int           `default:"64" help:"Keep-alive connections."`
	Pairs       int           `default:"9" help:"Pairs of rounds without and with a relay."`
	Duration    time.Duration `default:"2s" help:"Length of a round."`
	Sustain     time.Duration `default:"1m" help:"Then send comments at full speed for this long, and print the lag of the relay after each round."`
	Half        time.Duration `default:"1m" help:"Then send comments at half of that speed for this long, and measure their delay to the stream and to a mirror."`
}

// Run measures the cost of a relay, its lag, and the delay of events to the stream and to a mirror.
func (c *relayCommand) Run(ctx context.Context) error {
	return c.withTestbed(ctx, nil, func(t *testbed) (err error) {
		s := &relayed{neighbours: neighbours{priority: niced}}
		defer func() { err = errors.Join(err, s.stop()) }()
		if err := s.startNATS(ctx, t, c.Servers); err != nil {
			return err
		}
		without, err := t.newService(ctx, "without relay", t.Binary, t.ServeFlags)
		if err != nil {
			return err
		}
		s.service, err = t.newService(ctx, "with relay", t.Binary, slices.Concat(t.ServeFlags,
			[]string{"--relay", s.urls, "--relay-replicas", strconv.Itoa(c.Servers)}))
		if err != nil {
			return err
		}
		return s.service.whileRunning(ctx, false, func() error {
			if err := without.whileRunning(ctx, false, func() error {
				rounds, err := alternate(ctx, []*contestant{without, s.service}, c.Connections, c.Pairs, c.Duration)
				if err == nil {
					fmt.Print(table([2]string{without.name, s.service.name}, rounds[0], rounds[1]))
				}
				return err
			}); err != nil {
				return err
			}
			rate, err := s.sustain(ctx, c.Connections, c.Duration, c.Sustain)
			if err != nil {
				return err
			}
			return s.lags(ctx, rate/2, c.Half)
		})
	})
}

// natsCommand runs one of several NATS servers.
type natsCommand struct {
	Dir       string `help:"Directory of all servers."`
	FirstPort int    `help:"Port of the first server; the ports for routes follow those for clients."`
	Servers   int    `help:"Number of servers."`
	Number    int    `arg:"" help:"Index of this server, from 0 on."`
}

const natsReady = "NATS is listening on "

// Run serves until ctx ends.
func (c *natsCommand) Run(ctx context.Context) error {
	var ports, routes []int
	for i := range c.Servers {
		ports, routes = append(ports, c.FirstPort+i), append(routes, c.FirstPort+c.Servers+i)
	}
	return natsserver.Run(ctx, natsserver.Options(c.Dir, ports, routes)[c.Number], func() {
		fmt.Printf("%snats://127.0.0.1:%d\n", natsReady, ports[c.Number])
	})
}

// relayed is a service with a relay to NATS servers.
type relayed struct {
	neighbours

	urls string // of the NATS servers
	nats *nats.Conn
}

func (s *relayed) stop() error {
	if s.nats != nil {
		s.nats.Close()
	}
	return s.neighbours.stop()
}

// startNATS starts NATS servers and connects to them.
func (s *relayed) startNATS(ctx context.Context, t *testbed, servers int) error {
	const firstPort = 24222
	var urls []string
	for i := range servers {
		_, address, err := s.launch(ctx, natsReady, nil, t.self, "nats", "--dir", filepath.Join(t.dir, "nats"),
			"--first-port", strconv.Itoa(firstPort), "--servers", strconv.Itoa(servers), strconv.Itoa(i))
		if err != nil {
			return err
		}
		urls = append(urls, address)
	}
	s.urls = strings.Join(urls, ",")
	var err error
	s.nats, err = relay.Connect(ctx, relay.Connection{URL: s.urls})
	return err
}

// sustain runs rounds for some time, and returns the comments per second.
func (s *relayed) sustain(ctx context.Context, connections int, round, length time.Duration) (float64, error) {
	s.service.projecting = false // the next round need not wait for the projections
	defer func() { s.service.projecting = true }()
	var rounds []figures
	for start := time.Now(); time.Since(start) < length; {
		f, err := s.service.measure(ctx, connections, round)
		if err != nil {
			return 0, err
		}
		status, err := relay.ReadStatus(ctx, s.nats, s.service.conn)
		if err != nil {
			return 0, err
		}
		rounds = append(rounds, f)
		fmt.Printf("%4.0f s  %6.0f comments/s  relay %d events, %.2f s behind the ledger\n", time.Since(start).Seconds(),
			f.perSecond, status.Events, status.Seconds)
	}
	return medianOf(rounds, func(f figures) float64 { return f.perSecond }), nil
}

// lags sends comments at a rate for some time. It prints the delay from the recording of an event until it is on the
// stream, and until it is visible in the read models of a mirror. Both start at the recording, before the answer.
func (s *relayed) lags(ctx context.Context, rate float64, length time.Duration) (err error) {
	mirror, err := s.startMirror(ctx, "mirror")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mirror.stop(ctx)) }()
	if err := s.awaitMirror(ctx, mirror); err != nil {
		return err
	}
	before, err := relay.ReadStatus(ctx, s.nats, s.service.conn)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		f, err := s.service.paced(ctx, rate, length)
		fmt.Print("half the speed: ", summary([]figures{f}))
		ended <- err
	}()
	const interval, warmUp = 50 * time.Millisecond, 2 * time.Second
	var visible []time.Duration
	for start := time.Now(); len(ended) == 0; time.Sleep(interval) {
		var recorded time.Time
		if err := mirror.conn.QueryRow(ctx, visibleSQL).Scan(&recorded); err != nil {
			return fmt.Errorf("read the state of the mirror: %w", err)
		}
		if now := time.Now(); now.Sub(start) > warmUp && now.Sub(start) < length {
			visible = append(visible, now.Sub(recorded))
		}
	}
	if err := <-ended; err != nil {
		return err
	}
	stored, err := s.stored(ctx, before)
	if err != nil {
		return err
	}
	report := func(where string, list []time.Duration) {
		slices.Sort(list)
		fmt.Printf("on the %s after: p50 %.0f ms, p99 %.0f ms (%d samples)\n", where, millis(percentile(list, 50)),
			millis(percentile(list, 99)), len(list))
	}
	report("stream", stored)
	report("mirror", visible)
	return nil
}

// stored returns the delay of each event after a status, from its recording until the main stream stored it.
func (s *relayed) stored(ctx context.Context, after relay.Status) (list []time.Duration, err error) {
	js, err := jetstream.New(s.nats)
	if err != nil {
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	consumer, err := js.OrderedConsumer(ctx, after.Stream, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: uint64(after.Relayed) + 1, //nolint:gosec // not negative
	})
	if err != nil {
		return nil, fmt.Errorf("read the stream: %w", err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		return nil, fmt.Errorf("read the stream: %w", err)
	}
	defer messages.Stop()
	for {
		message, err := messages.Next()
		if err != nil {
			return nil, fmt.Errorf("read the stream: %w", err)
		}
		meta, err := message.Metadata()
		if err != nil {
			return nil, fmt.Errorf("read the stream: %w", err)
		}
		var event struct{ Time time.Time }
		if err := json.Unmarshal(message.Data(), &event); err != nil {
			return nil, fmt.Errorf("decode an event of the stream: %w", err)
		}
		list = append(list, meta.Timestamp.Sub(event.Time))
		if meta.NumPending == 0 {
			return list, nil
		}
	}
}
