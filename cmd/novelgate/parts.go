package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// part is a named piece of a service. It runs until its context ends, or fails.
type part struct {
	name string
	run  func(context.Context) error
}

// always is the run function of a part that does not fail.
func always(run func(context.Context)) func(context.Context) error {
	return func(ctx context.Context) error { run(ctx); return nil }
}

// runParts starts parts in their order. When ctx ends or a part fails, it stops them in reverse, each when all after it
// have ended: a part may use those before it until its own end. The error names the part that failed first.
func runParts(ctx context.Context, parts []part) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var stops []func() error
	for _, p := range parts {
		partCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		ended := make(chan error, 1)
		go func() {
			err := p.run(partCtx)
			if errors.Is(err, context.Canceled) && partCtx.Err() != nil {
				err = nil
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", p.name, err)
				fail(err)
			}
			ended <- err
		}()
		stops = append(stops, func() error { cancel(); return <-ended })
	}
	<-ctx.Done()
	var failed error
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		failed = cause
	}
	for _, stop := range slices.Backward(stops) {
		if err := stop(); failed == nil {
			failed = err
		}
	}
	return failed
}

// registered registers the metrics of a part.
func registered[C prometheus.Collector](metrics *prometheus.Registry, c C) C {
	metrics.MustRegister(c)
	return c
}
