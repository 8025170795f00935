package readapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
	"novelgate/internal/httpkit"
	"novelgate/readapi"
)

// broken is a database on which every statement fails.
type broken struct {
	database.Querier
	err error
}

func (b broken) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, b.err }

// diary collects what is logged.
type diary struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (d *diary) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.Write(p)
}

// TestDefectsAreNoOutages: what asking again does not help is a 500, and on record.
func TestDefectsAreNoOutages(t *testing.T) {
	t.Parallel()
	address, err := url.Parse(public)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		err    error
		status int
		level  string
	}{
		"a defect":  {errors.New("this was never thought of"), http.StatusInternalServerError, "ERROR"},
		"an outage": {io.ErrUnexpectedEOF, http.StatusServiceUnavailable, "WARN"},
	} {
		for path, route := range map[string]string{
			"/api/novels/a": "/api/novels/{slug}", "/novels/a/discussion": "/novels/{slug}/discussion",
		} {
			var log diary
			logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))
			w := &world{handler: routes(logger, &readapi.Reader{DB: broken{err: c.err}}, httpkit.NewAddresses(address))}
			const times = 3
			for range times {
				if got := w.get(t, path); got.Code != c.status ||
					(got.Header().Get("Retry-After") != "") != (c.status == http.StatusServiceUnavailable) {
					t.Errorf("%s: GET %s: %d %v", name, path, got.Code, got.Header())
				}
			}
			lines := strings.Count(log.text.String(), "level="+c.level)
			if lines == 0 || lines < times && c.level == "ERROR" || !strings.Contains(log.text.String(), c.err.Error()) ||
				!strings.Contains(log.text.String(), route) {
				t.Errorf("%s: GET %s: logged %q", name, path, log.text.String())
			}
		}
	}
}
