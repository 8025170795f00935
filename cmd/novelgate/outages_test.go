package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/commands/committer"
	"novelgate/internal/testdb"
)

// TestOutageIsAFewLines: parts of a service that fail again and again for more than a minute log four lines.
func TestOutageIsAFewLines(t *testing.T) {
	t.Parallel()
	away := fmt.Errorf("look up key: %w", context.DeadlineExceeded)
	for name, test := range map[string]struct {
		fail  func(context.Context, *slog.Logger)
		times int
		want  []string
	}{
		"an error of the database": {func(ctx context.Context, logger *slog.Logger) {
			logger.With(slog.String("part", "a")).WarnContext(ctx, "a part failed", slog.Any("error", away))
			logger.ErrorContext(ctx, "another part failed", slog.Any("error", fmt.Errorf("%w: x", committer.ErrUnavailable)))
		}, 100, []string{
			`a part failed" part=a error="look up key: context deadline exceeded"`,
			`unavailable: from now on, failures like this one are counted" error="the database is not available: x"`,
			`still unavailable" failures=120 for=1m0s error="the database is not available: x"`,
			`available again" failures=200 lasted=1m39.297s`,
		}},
		"one failure": {
			func(ctx context.Context, logger *slog.Logger) {
				logger.WarnContext(ctx, "it failed", slog.Any("error", away))
			}, 1,
			[]string{`it failed" error="look up key: context deadline exceeded"`},
		},
		"503 for another reason": {func(ctx context.Context, logger *slog.Logger) {
			logger.WarnContext(ctx, "request failed", slog.String("code", "unavailable"), slog.Any("error", errors.New("full")))
		}, 3, []string{
			`request failed" code=unavailable error=full`,
			`unavailable: from now on, failures like this one are counted" error=full`,
			`available again" failures=3 lasted=2.006s`,
		}},
		"failures of other kinds": {func(ctx context.Context, logger *slog.Logger) {
			logger.InfoContext(ctx, "told", slog.Any("error", away))
			logger.WarnContext(ctx, "no cause")
			logger.ErrorContext(ctx, "a defect", slog.Any("error", errors.New("broken")))
			logger.WarnContext(ctx, "a request of this program", slog.Any("error", &url.Error{Err: context.DeadlineExceeded}))
		}, 2, []string{
			`told error="look up key: context deadline exceeded"`, `no cause"`, `a defect" error=broken`,
			`a request of this program" error=" \"\": context deadline exceeded"`,
			`told error="look up key: context deadline exceeded"`, `no cause"`, `a defect" error=broken`,
			`a request of this program" error=" \"\": context deadline exceeded"`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				log := &testdb.Log{}
				logger := slog.New(newOutages(slog.NewTextHandler(log, nil)))
				for range test.times {
					test.fail(t.Context(), logger)
					time.Sleep(1003 * time.Millisecond) // never when the service looks
				}
				time.Sleep(time.Minute)
				var got []string
				for line := range strings.Lines(log.String()) {
					_, said, _ := strings.Cut(strings.TrimSpace(line), `msg=`)
					got = append(got, strings.TrimPrefix(said, `"`))
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("lines (-want +got)\n%s", diff)
				}
			})
		})
	}
}
