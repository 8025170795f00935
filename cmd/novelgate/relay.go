package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"novelgate/events/eventlog"
	"novelgate/events/relay"
)

// natsFlags configure the connection to NATS. They have the prefix --relay- or --mirror-.
type natsFlags struct {
	Credentials string `env:"CREDENTIALS" type:"existingfile" placeholder:"FILE" help:"Credentials of a NATS user."`
	CA          string `env:"CA" type:"existingfile" placeholder:"FILE" help:"CA certificates (default: the system's)."`
	Cert        string `env:"CERT" type:"existingfile" placeholder:"FILE" help:"Client certificate for the NATS servers."`
	Key         string `env:"KEY" type:"existingfile" placeholder:"FILE" help:"Private key of the client certificate."`
}

// validate checks the flags, which have a prefix.
func (f *natsFlags) validate(prefix string) error {
	if (f.Cert == "") != (f.Key == "") {
		return fmt.Errorf("%[1]s-cert and %[1]s-key go together", prefix)
	}
	return nil
}

// connection returns the connection to servers.
func (f *natsFlags) connection(url string, logger *slog.Logger) relay.Connection {
	return relay.Connection{
		URL: url, Credentials: f.Credentials, CA: f.CA, Certificate: f.Cert, Key: f.Key, Logger: logger,
	}
}

// requireNATS refuses the value of a flag that does not consist of addresses of NATS servers. The error does not quote
// them, because they may contain a password.
func requireNATS(flag, addresses string) error {
	for address := range strings.SplitSeq(addresses, ",") {
		u, err := url.Parse(strings.TrimSpace(address))
		if err != nil || !slices.Contains([]string{"nats", "tls"}, u.Scheme) || u.Host == "" {
			return fmt.Errorf("%s must be addresses such as nats://host:4222, separated by commas", flag)
		}
	}
	return nil
}

// RelayFlags configure where and how the relay publishes events.
type RelayFlags struct {
	URL      string    `name:"relay" env:"NOVELGATE_RELAY" placeholder:"URL" help:"NATS servers to which sealed events are published (JetStream): nats:// or tls://, separated by commas. One replica is active."`
	NATS     natsFlags `embed:"" prefix:"relay-" envprefix:"NOVELGATE_RELAY_"`
	Replicas int       `name:"relay-replicas" env:"NOVELGATE_RELAY_REPLICAS" default:"3" placeholder:"N" help:"NATS servers that store each message of a new stream: 1, 3 or 5 (default: ${default}; 1 for a single server)."`
}

// validate checks the flags before anything starts.
func (f *RelayFlags) validate() error {
	if f.URL != "" {
		if err := requireNATS("--relay", f.URL); err != nil {
			return err
		}
	}
	if !slices.Contains([]int{1, 3, 5}, f.Replicas) {
		return errors.New("--relay-replicas must be 1, 3 or 5")
	}
	return f.NATS.validate("--relay")
}

// connect connects to NATS. With once it fails if no server answers; otherwise the connection keeps trying.
func (f *RelayFlags) connect(ctx context.Context, logger *slog.Logger, once bool) (*nats.Conn, error) {
	connection := f.NATS.connection(f.URL, logger)
	connection.Once = once
	return relay.Connect(ctx, connection)
}

// addRelay adds the relay to the background work.
func (s *service) addRelay(ctx context.Context, flags *RelayFlags) error {
	if flags.URL == "" {
		return nil
	}
	conn, err := flags.connect(ctx, s.logger, false)
	if err != nil {
		return err
	}
	s.relayMetrics.AddLag(s.db.pools.General, s.now) //nolint:contextcheck // a scrape has no context
	r, err := relay.New(relay.Config{
		Database: s.db.pools.General.Config().ConnConfig, Conn: conn, Replicas: flags.Replicas, Tail: s.tail, Wake: s.wake,
		Metrics: s.relayMetrics, Logger: s.logger, PublicURL: s.publicURL.String(),
	})
	if err != nil {
		return err
	}
	s.background = append(s.background, func(ctx context.Context) { defer conn.Close(); r.Run(ctx) })
	return nil
}

type relayCommand struct {
	Run    relayRun    `cmd:"" default:"withargs" help:"Relay until a signal: what serve --relay does, on its own."`
	Status relayStatus `cmd:"" help:"Show the streams, and how far they are behind the ledger."`
}

// relayArgs are RelayFlags with --relay required.
type relayArgs struct{ RelayFlags }

// Validate refuses flags without servers, and wrong ones; kong calls it.
func (f *relayArgs) Validate() error {
	if f.URL == "" {
		return errors.New("--relay must name the NATS servers")
	}
	return f.validate()
}

type relayRun struct {
	DatabaseFlags
	relayArgs `embed:""`
	PublicURL string   `env:"NOVELGATE_PUBLIC_URL" placeholder:"URL" help:"Public URL of the service. After a promotion of a mirror, its former origin learns it from the streams (default: unknown)."`
	LogLevel  logLevel `env:"NOVELGATE_LOG_LEVEL" default:"info" placeholder:"LEVEL" help:"debug, info, warn or error (default: ${default})."`
}

// Run relays until ctx ends.
func (c *relayRun) Run(ctx context.Context, out streams, pool *pgxpool.Pool) error {
	publicURL := ""
	if c.PublicURL != "" {
		u, err := parsePublicURL("--public-url", c.PublicURL)
		if err != nil {
			return err
		}
		publicURL = u.String()
	}
	logger := out.logger(slog.Level(c.LogLevel))
	conn, err := c.connect(ctx, logger, false)
	if err != nil {
		return err
	}
	defer conn.Close()
	config, wake := pool.Config().ConnConfig, eventlog.NewWake()
	r, err := relay.New(relay.Config{
		Database: config, Conn: conn, Replicas: c.Replicas, Wake: wake, Logger: logger, PublicURL: publicURL,
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(out.stdout, "Novelgate relays the event log to NATS")
	var group errgroup.Group
	group.Go(func() error { wake.Listen(ctx, config, logger); return nil })
	group.Go(func() error { r.Run(ctx); return nil })
	return group.Wait()
}

type relayStatus struct {
	CommonFlags
	relayArgs `embed:""`
}

// Run prints streams and lag.
func (c *relayStatus) Run(ctx context.Context, out *output, pool *pgxpool.Pool) error {
	conn, err := c.connect(ctx, out.logger(slog.LevelError), true)
	if err != nil {
		return err
	}
	defer conn.Close()
	s, err := relay.ReadStatus(ctx, conn, pool)
	if err != nil {
		return err
	}
	return out.print(s, func() {
		out.table([][]any{
			{"RELAY", ""},
			{"origin", s.Origin},
			{"stream", s.Stream},
			{"personal stream", s.PersonalStream},
			{"replicas", s.Replicas},
			{"relayed events", s.Relayed},
			{"lag events", s.Events},
			{"lag seconds", fmt.Sprintf("%.3f", s.Seconds)},
			{"erased messages", s.Erased},
		})
	})
}
