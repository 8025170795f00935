package eventlog_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
)

// reads runs f with a sequence of read results, and returns when each read began. signals are sent at the given times.
func reads(t *testing.T, f eventlog.Follow, found []eventlog.Span, signal func(time.Duration)) (began []time.Duration) {
	t.Helper()
	start := time.Now()
	if signal != nil {
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					signal(time.Since(start))
				}
			}
		}()
	}
	err := f.Each(t.Context(), func(context.Context) (eventlog.Span, error) {
		began = append(began, time.Since(start))
		if len(began) > len(found) {
			return eventlog.Span{}, eventlog.ErrEnd
		}
		return found[len(began)-1], nil
	})
	if err != nil {
		t.Errorf("it ended with %v", err)
	}
	return began
}

// TestPacing: the time of the next read depends on the results of the last ones and on signals.
func TestPacing(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	nothing, few, many := eventlog.Span{}, eventlog.Span{Read: 3}, eventlog.Span{Read: 500}
	full := eventlog.Span{Read: 9, Full: true}
	for name, test := range map[string]struct {
		found  []eventlog.Span
		signal func(w *eventlog.Wake, at time.Duration)
		want   []time.Duration
	}{
		"nothing: once a second": {
			found: []eventlog.Span{nothing, nothing}, want: []time.Duration{0, 1000 * ms, 2000 * ms},
		},
		"full reads: without rest": {found: []eventlog.Span{full, full}, want: []time.Duration{0, 0, 0}},
		"a signal ends the wait": {
			found:  []eventlog.Span{nothing},
			signal: func(w *eventlog.Wake, at time.Duration) { signalAt(w, at, 40*ms) }, want: []time.Duration{0, 40 * ms},
		},
		"events: a pause for each, whatever is signalled": {
			found:  []eventlog.Span{few, many},
			signal: func(w *eventlog.Wake, _ time.Duration) { w.Signal() }, want: []time.Duration{0, 6 * ms, 106 * ms},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				wake := eventlog.NewWake()
				f := eventlog.Follow{Wake: wake, Pace: 100 * ms}
				var signal func(time.Duration)
				if test.signal != nil {
					signal = func(at time.Duration) { test.signal(wake, at) }
				}
				if diff := cmp.Diff(test.want, reads(t, f, test.found, signal)); diff != "" {
					t.Errorf("reads begin at other moments (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func signalAt(w *eventlog.Wake, at, moment time.Duration) {
	if at == moment {
		w.Signal()
	}
}

// TestTurns: after a failed turn the next one follows after the wait for its error.
func TestTurns(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	errFailed := errors.New("failed")
	type outcome struct {
		progress bool
		err      error
	}
	failed := outcome{err: errFailed}
	for name, test := range map[string]struct {
		outcomes []outcome
		want     []time.Duration
	}{
		"failures: longer and longer": {
			slices.Repeat([]outcome{failed}, 9),
			[]time.Duration{
				0, 50 * ms, 150 * ms, 350 * ms, 750 * ms, 1550 * ms, 3150 * ms, 6350 * ms, 11350 * ms, 16350 * ms,
			},
		},
		"progress: from the beginning": {
			[]outcome{failed, failed, {true, errFailed}, failed}, []time.Duration{0, 50 * ms, 150 * ms, 200 * ms, 300 * ms},
		},
		"blocked: once a second": {
			[]outcome{{err: eventlog.ErrBlocked}, {err: eventlog.ErrBlocked}}, []time.Duration{0, 1000 * ms, 2000 * ms},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var began []time.Duration
				start := time.Now()
				f := eventlog.Follow{Logger: slog.New(slog.DiscardHandler)}
				f.Run(ctx, func(context.Context) (bool, error) {
					began = append(began, time.Since(start))
					if len(began) > len(test.outcomes) {
						cancel()
						return false, nil
					}
					o := test.outcomes[len(began)-1]
					return o.progress, o.err
				})
				if diff := cmp.Diff(test.want, began); diff != "" {
					t.Errorf("turns begin at other moments (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestStandby: a standby takes its next turn when the position of the active replica stops moving.
func TestStandby(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const active = 10 * time.Second
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		start := time.Now()
		f := eventlog.Follow{Position: func(context.Context) (events.Position, error) {
			alive := min(time.Since(start), active)
			return events.Position(alive), nil
		}}
		f.Logger = slog.New(slog.DiscardHandler)
		turns := 0
		f.Run(ctx, func(context.Context) (bool, error) {
			if turns++; turns == 2 {
				cancel()
			}
			return false, eventlog.ErrStandby
		})
		if took := time.Since(start); took < active || took > active+time.Second {
			t.Errorf("it takes over after %v, the active replica stood still after %v", took, active)
		}
	})
}

// TestFollowTheLog: events are read once and in order as they are appended, also by another process.
func TestFollowTheLog(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	theirs, ours := eventlog.NewWake(), eventlog.NewWake()
	ctx, cancel := context.WithCancel(t.Context())
	ended, quiet := make(chan struct{}, 2), slog.New(slog.DiscardHandler)
	go func() { theirs.Listen(ctx, log.pool.Config().ConnConfig, quiet); ended <- struct{}{} }()
	go func() { ours.Notify(ctx, log.pool, quiet); ended <- struct{}{} }()
	defer func() { cancel(); <-ended; <-ended }()
	tail := openTail(t, log.pool, 4)

	const rounds, each = 20, 7
	var want, got []string
	appended := make(chan struct{})
	go func() {
		defer close(appended)
		for round := range rounds {
			want = append(want, appendThreads(t, log.pool, string(rune('a'+round)), each)...)
			ours.Signal()
		}
	}()
	var from eventlog.Mark
	// With such a long Poll, only signals can wake it.
	f := eventlog.Follow{Wake: theirs, Poll: testdb.Patience, Pace: time.Millisecond}
	err := f.Each(t.Context(), func(ctx context.Context) (eventlog.Span, error) {
		chunk, err := tail.Read(ctx, from, nil)
		if err != nil {
			return chunk.Span, err
		}
		if len(chunk.Events) > 4 || chunk.Start != from.Position {
			t.Errorf("a chunk of %d events from %d on, want at most 4 from %s on", len(chunk.Events), chunk.Start, from)
		}
		got, from = append(got, ids(chunk)...), chunk.End
		if len(got) >= rounds*each {
			return chunk.Span, eventlog.ErrEnd
		}
		return chunk.Span, nil
	})
	<-appended
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-appended +read):\n%s", err, diff)
	}
}
