package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"novelgate/events/eventlog"
	"novelgate/events/relay"
)

// RelayFlags configure where and how the relay publishes events.
type RelayFlags struct {
	URL         string `name:"relay" env:"NOVELGATE_RELAY" placeholder:"URL" help:"NATS servers to which events are published (JetStream): nats:// or tls://, separated by commas. One replica is active."`
	Credentials string `name:"relay-credentials" env:"NOVELGATE_RELAY_CREDENTIALS" type:"existingfile" placeholder:"FILE" help:"Credentials of a NATS user."`
	CA          string `name:"relay-ca" env:"NOVELGATE_RELAY_CA" type:"existingfile" placeholder:"FILE" help:"CA certificates (default: the system's)."`
	Cert        string `name:"relay-cert" env:"NOVELGATE_RELAY_CERT" type:"existingfile" placeholder:"FILE" help:"Client certificate for the NATS servers."`
	Key         string `name:"relay-key" env:"NOVELGATE_RELAY_KEY" type:"existingfile" placeholder:"FILE" help:"Private key of the client certificate."`
	Replicas    int    `name:"relay-replicas" env:"NOVELGATE_RELAY_REPLICAS" default:"3" placeholder:"N" help:"NATS servers that store each message of a new stream: 1, 3 or 5 (default: ${default}; 1 for a single server)."`
}

// validate checks the flags before anything starts.
func (f *RelayFlags) validate() error {
	if f.URL != "" {
		for address := range strings.SplitSeq(f.URL, ",") {
			u, err := url.Parse(strings.TrimSpace(address))
			if err != nil || !slices.Contains([]string{"nats", "tls"}, u.Scheme) || u.Host == "" {
				// The error does not quote the addresses, because they may contain a password.
				return errors.New("--relay must be addresses such as nats://host:4222, separated by commas")
			}
		}
	}
	if !slices.Contains([]int{1, 3, 5}, f.Replicas) {
		return errors.New("--relay-replicas must be 1, 3 or 5")
	}
	if (f.Cert == "") != (f.Key == "") {
		return errors.New("--relay-cert and --relay-key go together")
	}
	return nil
}

// connect connects to NATS. With once it fails if no server answers; otherwise the connection keeps trying.
func (f *RelayFlags) connect(ctx context.Context, logger *slog.Logger, once bool) (*nats.Conn, error) {
	return relay.Connect(ctx, relay.Connection{
		URL: f.URL, Credentials: f.Credentials, CA: f.CA, Certificate: f.Cert, Key: f.Key, Once: once, Logger: logger,
	})
}

// part returns the relay as a part of serve. It completes config, and keeps trying while no NATS server answers.
func (f *RelayFlags) part(ctx context.Context, config relay.Config) (part, error) {
	conn, err := f.connect(ctx, config.Logger, false)
	if err != nil {
		return part{}, err
	}
	config.Conn, config.Replicas = conn, f.Replicas
	r, err := relay.New(config)
	if err != nil {
		conn.Close()
		return part{}, err
	}
	return part{"relay", always(func(ctx context.Context) { defer conn.Close(); r.Run(ctx) })}, nil
}

type relayCommand struct {
	Run    relayRun    `cmd:"" default:"withargs" help:"Relay until a signal: what serve --relay does, on its own."`
	Status relayStatus `cmd:"" help:"Show the streams, and how far they are behind the log."`
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
	LogLevel  logLevel `env:"NOVELGATE_LOG_LEVEL" default:"info" placeholder:"LEVEL" help:"debug, info, warn or error (default: ${default})."`
}

func (c *relayRun) run(ctx context.Context, env *environment) error {
	pool, err := env.pool(ctx)
	if err != nil {
		return err
	}
	logger, wake, config := env.logger(slog.Level(c.LogLevel)), eventlog.NewWake(), pool.Config().ConnConfig
	relaying, err := c.part(ctx, relay.Config{Database: config, Wake: wake, Logger: logger})
	if err != nil {
		return err
	}
	fmt.Fprintln(env.stdout, "Novelgate relays the event log to NATS")
	listening := always(func(ctx context.Context) { wake.Listen(ctx, config, logger) })
	return runParts(ctx, []part{{"notifications", listening}, relaying})
}

type relayStatus struct {
	CommonFlags
	relayArgs `embed:""`
}

func (c *relayStatus) run(ctx context.Context, env *environment) error {
	pool, err := env.pool(ctx)
	if err != nil {
		return err
	}
	conn, err := c.connect(ctx, env.logger(slog.LevelError), true)
	if err != nil {
		return err
	}
	defer conn.Close()
	s, err := relay.ReadStatus(ctx, conn, pool)
	return env.show(result{s, func(env *environment) {
		env.table(
			[]any{"RELAY", ""},
			[]any{"origin", s.Origin},
			[]any{"stream", s.Stream},
			[]any{"personal stream", s.PersonalStream},
			[]any{"replicas", s.Replicas},
			[]any{"relayed events", s.Relayed},
			[]any{"lag events", s.Events},
			[]any{"lag seconds", fmt.Sprintf("%.3f", s.Seconds)},
			[]any{"erased messages", s.Erased},
		)
	}}, err)
}
