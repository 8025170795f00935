package main

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"novelgate/commands/request"
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
			if err != nil || !slices.Contains([]string{"nats", "tls"}, u.Scheme) || u.Host == "" || request.CheckPort(u) != "" {
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

// part returns the relay as a part of serve. It completes config, and keeps trying while no NATS server answers.
func (f *RelayFlags) part(ctx context.Context, config relay.Config) (part, error) {
	conn, err := relay.Connect(ctx, relay.Connection{
		URL: f.URL, Credentials: f.Credentials, CA: f.CA, Certificate: f.Cert, Key: f.Key, Logger: config.Logger,
	})
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
