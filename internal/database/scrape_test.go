package database_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"novelgate/internal/database"
)

func TestScrapeCache(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	reads := 0
	var failure error
	r := database.NewScrapeCache(func() time.Time { return now }, func(ctx context.Context) (int, error) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("a reading has no end")
		}
		reads++
		return reads, failure
	})
	get := func(want int, wantErr error) {
		t.Helper()
		if got, err := r.Get(); got != want || !errors.Is(err, wantErr) {
			t.Errorf("%d, %v, want %d, %v", got, err, want, wantErr)
		}
	}
	get(1, nil)
	now = now.Add(999 * time.Millisecond)
	get(1, nil)
	now = now.Add(time.Millisecond)
	failure = context.DeadlineExceeded
	get(2, failure)
	get(2, failure) // a database that does not answer is not asked by every scrape either
	now = now.Add(-time.Hour)
	failure = nil
	get(3, nil) // the clock was set back
}
