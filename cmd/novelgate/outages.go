package main

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"novelgate/commands/committer"
	"novelgate/events/eventlog"
	"novelgate/internal/problem"
)

const (
	// outageEnd is the time without a failure after which an outage has ended. Some part of a service fails more often:
	// the longest wait before it tries again is five seconds.
	outageEnd      = 10 * time.Second
	outageInterval = time.Minute // between two lines about an outage that lasts
)

// outages is the slog.Handler of a service. When the database is away, all parts fail and try again, so it groups their
// warnings: of an outage it logs the first failure as it is, one line when the second one follows, one a minute with
// their number, and one at the end. A log with lines for debugging has each failure.
type outages struct {
	slog.Handler

	*outage // shared by all handlers of the log
}

func newOutages(h slog.Handler) slog.Handler { return &outages{h, &outage{log: slog.New(h)}} }

// WithAttrs implements slog.Handler.
func (o *outages) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &outages{o.Handler.WithAttrs(attrs), o.outage}
}

// WithGroup implements slog.Handler.
func (o *outages) WithGroup(name string) slog.Handler {
	return &outages{o.Handler.WithGroup(name), o.outage}
}

// Handle implements slog.Handler.
func (o *outages) Handle(ctx context.Context, r slog.Record) error {
	if err := unavailable(r); err != nil && !o.Enabled(ctx, slog.LevelDebug) && !o.begins(ctx, err) {
		return nil
	}
	return o.Handler.Handle(ctx, r)
}

// unavailable returns the error of a line that reports a failure of the kind that an outage causes; nil for any other.
func unavailable(r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return nil
	}
	var err error
	var isRefusal bool // of a request
	r.Attrs(func(attr slog.Attr) bool {
		switch attr.Key {
		case "error":
			err, _ = attr.Value.Any().(error)
		case "code":
			isRefusal = attr.Value.String() == string(problem.CodeUnavailable)
		}
		return true
	})
	_, isHTTP := errors.AsType[*url.Error](err) // a network error, too, but not of the database
	if isRefusal || eventlog.IsAway(err) && !isHTTP || errors.Is(err, committer.ErrUnavailable) ||
		errors.Is(err, committer.ErrOutcomeUnknown) {
		return err
	}
	return nil
}

// outage counts failures until there are none for outageEnd.
type outage struct {
	log *slog.Logger

	mu                    sync.Mutex
	failures              int
	latest                error
	began, logged, failed time.Time // the first failure, the latest line, the latest failure
}

// begins counts a failure and reports whether it is the first one.
func (o *outage) begins(ctx context.Context, err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failures++
	o.latest, o.failed = err, time.Now()
	switch o.failures {
	case 1:
		o.began = o.failed
		time.AfterFunc(outageEnd, o.look)
	case 2:
		o.logged = o.failed
		o.log.WarnContext(ctx, "unavailable: from now on, failures like this one are counted", slog.Any("error", err))
	}
	return o.failures == 1
}

// look logs that the outage lasts or has ended, if that is due, and looks again later.
func (o *outage) look() {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, ctx := time.Now(), context.Background()
	switch {
	case now.Sub(o.failed) >= outageEnd:
		if o.failures > 1 {
			o.log.WarnContext(ctx, "available again", slog.Int("failures", o.failures),
				slog.Duration("lasted", o.failed.Sub(o.began)))
		}
		o.failures = 0
		return
	case o.failures > 1 && now.Sub(o.logged) >= outageInterval:
		o.logged = now
		o.log.WarnContext(ctx, "still unavailable", slog.Int("failures", o.failures),
			slog.Duration("for", now.Sub(o.began)), slog.Any("error", o.latest))
	}
	time.AfterFunc(time.Second, o.look)
}
