package main

import (
	"context"
	"errors"

	"novelgate/internal/bench/contest"
)

// arenaOfOne is an arena in which a single service runs.
type arenaOfOne struct {
	*contest.Arena
	database *contest.Service
	service  *contest.Contestant
}

// serviceSetup says how the service of an arenaOfOne runs.
type serviceSetup struct {
	paused   bool              // its projections and its ledger
	flags    []string          // of serve
	settings map[string]string // of the database server
}

// withService lets use work with a service, and stops everything afterwards.
func (f ArenaFlags) withService(in *invocation, setup serviceSetup, use func(a arenaOfOne) error) (err error) {
	a := arenaOfOne{}
	if a.Arena, err = f.open(in, setup.settings); err != nil {
		return err
	}
	stopping := context.WithoutCancel(in.ctx)
	defer func() { err = errors.Join(err, a.Close(stopping)) }()
	if a.database, err = a.NewService(in.ctx, "bench_service"); err != nil {
		return err
	}
	if a.service, err = a.database.Start(in.ctx, setup.paused, setup.flags...); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.service.Stop(stopping)) }()
	return use(a)
}
