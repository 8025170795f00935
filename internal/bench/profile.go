package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
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
	ServeFlags  []string      `name:"serve-flag" sep:"none" placeholder:"FLAG" help:"Further flags of novelgate serve."`
}

// Run saves the profile and prints the figures of the round and the statements.
func (c *ProfileCommand) Run(in *invocation) error {
	setup := serviceSetup{paused: c.Paused, flags: c.ServeFlags}
	if c.Statements > 0 {
		setup.settings = contest.StatementSettings()
	}
	return c.withService(in, setup, func(a arenaOfOne) error { return c.measure(in, a) })
}

func (c *ProfileCommand) measure(in *invocation, a arenaOfOne) error {
	if c.Preload > 0 {
		if err := errors.Join(a.database.Preload(in.ctx, a.service, c.Preload), a.Checkpoint(in.ctx)); err != nil {
			return err
		}
	}
	if _, err := a.Measure(in.ctx, a.service, c.Connections, 2*time.Second); err != nil {
		return err
	}
	return c.profile(in, a.Arena, a.service)
}

func (c *ProfileCommand) profile(in *invocation, arena *contest.Arena, service *contest.Contestant) error {
	if c.Statements > 0 {
		if err := arena.ResetStatements(in.ctx); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(in.ctx)
	url := service.OpsURL + "/debug/pprof/" + c.Kind + "?seconds=" + strconv.Itoa(int(c.Duration/time.Second))
	group.Go(func() error { return saveProfile(ctx, url, c.Output) })
	var figures contest.Figures
	group.Go(func() (err error) {
		figures, err = arena.Measure(ctx, service, c.Connections, c.Duration+time.Second)
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	text := contest.Medians(service.Name, []contest.Figures{figures}) + "The profile is in " + c.Output + ".\n"
	if c.Statements > 0 {
		statements, err := arena.Statements(in.ctx, c.Statements, figures.Accepted)
		if err != nil {
			return err
		}
		text += statements
	}
	return in.print(text)
}

// saveProfile fetches a profile into a file.
func saveProfile(ctx context.Context, url, output string) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("ask for the profile: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask for the profile: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("ask for the profile: status %s", answer.Status) // nobody tells it apart
	}
	file, err := os.Create(output)
	if err != nil {
		return fmt.Errorf("save the profile: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := io.Copy(file, answer.Body); err != nil {
		return fmt.Errorf("save the profile: %w", err)
	}
	return nil
}
