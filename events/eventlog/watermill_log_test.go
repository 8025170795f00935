package eventlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/ThreeDotsLabs/watermill"

	"novelgate/events/eventlog"
)

// TestWatermillLogger: an operator hears of errors, but not of those that every shutdown brings with it.
func TestWatermillLogger(t *testing.T) {
	t.Parallel()
	closed, canceled := errors.New("conn closed"), fmt.Errorf("query message: %w", context.Canceled)
	for _, tc := range []struct {
		err    error
		fields watermill.LogFields
		logged bool
	}{
		{closed, nil, true},
		{closed, watermill.LogFields{"query_err": closed}, true},
		{canceled, nil, false},
		{closed, watermill.LogFields{"query_err": canceled}, false},
	} {
		var log bytes.Buffer
		logger := eventlog.WatermillLogger(slog.New(slog.NewTextHandler(&log, nil))).With(watermill.LogFields{
			"projection": "posts",
		})
		logger.Error("message", tc.err, tc.fields)
		if logged := bytes.Contains(log.Bytes(), []byte("level=ERROR")); logged != tc.logged || !tc.logged && log.Len() > 0 {
			t.Errorf("%v, %v: %q", tc.err, tc.fields, log.String())
		}
	}
}
