package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"novelgate/internal/bench/contest"
)

// ProfileCommand is `bench profile`.
type ProfileCommand struct {
	ArenaFlags
	Connections int           `default:"256" help:"Keep-alive connections."`
	Duration    time.Duration `default:"20s" help:"Length of the profile."`
	Output      string        `default:"cpu.pprof" placeholder:"FILE" help:"Where the profile goes; read it with go tool pprof."`
	Kind        string        `default:"profile" help:"Which profile: profile (CPU) or another one below /debug/pprof/."`
	Preload     int           `placeholder:"N" help:"Begin with N comments in the log."`
	Paused      bool          `help:"With paused projections."`
	Statements  int           `default:"12" help:"How many SQL statements to list; 0 leaves their statistics out, which cost time too."`
}

// Run saves the profile and prints the figures of the round and the statements.
func (c *ProfileCommand) Run(ctx context.Context) error {
	var settings map[string]string
	if c.Statements > 0 {
		settings = contest.StatementSettings()
	}
	return c.run(ctx, c.Paused, settings, func(a withService) error { return c.measure(ctx, a) })
}

func (c *ProfileCommand) measure(ctx context.Context, a withService) error {
	if err := a.preload(ctx, c.Preload); err != nil {
		return err
	}
	if _, err := a.Measure(ctx, a.service, c.Connections, 2*time.Second); err != nil { // warm-up
		return err
	}
	if c.Statements > 0 {
		if err := a.ResetStatements(ctx); err != nil {
			return err
		}
	}
	var figures contest.Figures
	err := profiled(ctx, a.service, c.Kind, c.Duration, c.Output, func(ctx context.Context) (err error) {
		figures, err = a.Measure(ctx, a.service, c.Connections, c.Duration+time.Second)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Print(contest.Line(a.service.Name, figures), "The profile is in ", c.Output, ".\n")
	if c.Statements == 0 {
		return nil
	}
	statements, err := a.Statements(ctx, c.Statements, figures.Accepted)
	fmt.Print(statements)
	return err
}

// profiled saves a profile of a service in a file while it works.
func profiled(ctx context.Context, service *contest.Contestant, kind string, length time.Duration, output string,
	work func(context.Context) error,
) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return work(ctx) })
	group.Go(func() error {
		url := fmt.Sprintf("%s/debug/pprof/%s?seconds=%d", service.OpsURL, kind, int(length.Seconds()))
		if err := save(ctx, url, output); err != nil {
			return fmt.Errorf("save the profile: %w", err)
		}
		return nil
	})
	return group.Wait() // wrapped above
}

var errStatus = errors.New("unexpected status")

func save(ctx context.Context, url, output string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%w %s", errStatus, answer.Status)
	}
	file, err := os.Create(output)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, answer.Body)
	return errors.Join(err, file.Close())
}
