package rebuild_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// TestInlineSwitchWaitsForTheLog: while another transaction hides many events, an inline switch does not apply them
// with appends blocked. It waits for the transaction and then switches.
func TestInlineSwitchWaitsForTheLog(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	novels := 0
	add := func(n int) {
		var batch []events.Recorded
		for range n {
			batch = append(batch, novel(seeded(uint64(novels)), fmt.Sprintf("n%d", novels))...)
			novels++
		}
		appendUntilDone(t, pool, batch)
	}
	add(2)
	long := testdb.Begin(t, pool)
	testdb.Exec(t, long, `SELECT pg_current_xact_id()`)
	for range 10 {
		add(150)
	}

	var waits messages
	type outcome struct {
		result rebuild.Result
		err    error
	}
	ended := make(chan outcome, 1)
	go func() {
		result, err := rebuild.Run(context.Background(),
			rebuild.Config{Pool: pool, Projection: projections.Titles{}, Logger: slog.New(&waits)})
		ended <- outcome{result, err}
	}()
	testdb.Eventually(t, "the switch says that it waits", func() bool {
		select {
		case early := <-ended:
			t.Fatalf("ended while most of the log was hidden: %d events, %v", early.result.Events, early.err)
		default:
		}
		return waits.about.Load() > 0
	})
	add(1)
	if err := long.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	end := <-ended
	if end.err != nil {
		t.Fatal(end.err)
	}
	if all := count(t, pool, "events"); end.result.Events < all-1000 {
		t.Errorf("only %d of %d events were applied before appends were held", end.result.Events, all)
	}
	if n := count(t, pool, "title_lookup"); n != novels {
		t.Errorf("%d titles of %d novels", n, novels)
	}
}

// messages is a logger that counts messages of a switch that waits for the log.
type messages struct {
	slog.Handler

	about atomic.Int64
}

func (*messages) Enabled(context.Context, slog.Level) bool { return true }
func (m *messages) WithAttrs([]slog.Attr) slog.Handler     { return m }
func (m *messages) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "open elsewhere") {
		m.about.Add(1)
	}
	return nil
}
