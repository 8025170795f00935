package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/apikey"
)

// notMirrored are the tests that NOVELGATE_TEST_MIRRORS skips, with what a mirror has not.
var notMirrored = map[string]string{
	"TestLedgerWitnesses": "a mirror gets no cosignatures that come after it has read the checkpoint",

	"TestMirror":                          ofMirrors,
	"TestMirrorRefusesCommands":           ofMirrors,
	"TestMirroredErasure":                 ofMirrors,
	"TestMirrorStopsBeforeATamperedEvent": ofMirrors,
	"TestMirrorOverNATS":                  ofMirrors,
	"TestMirrorOverNATSStops":             ofMirrors,
	"TestHandoverOverNATS":                ofMirrors,
	"TestHandover":                        ofMirrors,
	"TestLostOrigin":                      ofMirrors,
	"TestHandoverWebhooks":                ofMirrors,
	"TestHandoverAndBack":                 ofMirrors,
	"TestHandoverKilled":                  ofMirrors,
	"TestHandoverRefused":                 ofMirrors,
	"TestStoppedMirrorPromoted":           ofMirrors,
	"TestReplacedServices":                ofMirrors,
	"TestReplacedWhileRunning":            ofMirrors,
	"TestMirrorWithoutDatabase":           ofMirrors,
	"TestLostTwice":                       ofMirrors,
}

const ofMirrors = "it is a test of mirrors"

// mirrored reports whether readers of the services of a test are served by mirrors. It skips a test of notMirrored.
func mirrored(t testing.TB) bool {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	if name == "TestReadersOfAMirror" {
		return true
	}
	if os.Getenv("NOVELGATE_TEST_MIRRORS") == "" {
		return false
	}
	if reason, ok := notMirrored[name]; ok {
		t.Skip("not with a mirror: " + reason)
	}
	return true
}

// addMirror starts a mirror of a service, and lets it serve the readers of the service.
func (s *Service) addMirror(t testing.TB, flags []string) {
	t.Helper()
	public := s.URL
	if at := slices.Index(flags, "--public-url"); at >= 0 {
		public = flags[at+1]
	}
	s.mirror = startMirror(t, s, "--public-url", public)
	s.ReadURL = behindOrigin(t, s)
}

// behindOrigin returns the address of a proxy to the mirror of a service. It holds each request until the mirror has
// all that the service had when the request came.
func behindOrigin(t testing.TB, s *Service) string {
	t.Helper()
	target, err := url.Parse(s.mirror.URL)
	if err != nil {
		t.Fatal(err)
	}
	var databases [2]*pgxpool.Pool
	for i, of := range []*Service{s, s.mirror} {
		if databases[i], err = pgxpool.New(context.Background(), of.DatabaseURL+"&pool_max_conns=1"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(databases[i].Close)
	}
	mirror := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.URL.RawQuery = r.In.URL.RawQuery // also a malformed one
	}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if want, err := reached(r.Context(), databases[0]); err == nil { // a mirror serves while its origin is away
			if err := awaitReached(r.Context(), databases[1], want); err != nil {
				http.Error(w, fmt.Sprintf("The mirror is behind: %v.", err), http.StatusGatewayTimeout)
				return
			}
		}
		mirror.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { proxy.CloseClientConnections(); proxy.Close() })
	return proxy.URL
}

// reachedSQL counts the events in the log, under the newest checkpoint, and applied by each projection.
const reachedSQL = `SELECT jsonb_object_agg(name, events) FROM (
	SELECT 'the log' AS name, count(*) AS events FROM events
	UNION ALL SELECT 'the newest checkpoint', coalesce(max(tree_size), 0) FROM ledger_checkpoints
	UNION ALL SELECT name, applied FROM projections NATURAL JOIN (SELECT transaction_id, position,
		(SELECT count(*) FROM events AS e WHERE (e.transaction_id, e.position) <= (at.transaction_id, at.position)) AS applied
		FROM (SELECT DISTINCT transaction_id, position FROM projections) AS at) AS counted) AS counts`

func reached(ctx context.Context, database *pgxpool.Pool) (counts map[string]int64, err error) {
	var text []byte
	if err = database.QueryRow(ctx, reachedSQL).Scan(&text); err == nil {
		err = json.Unmarshal(text, &counts)
	}
	return counts, err
}

func awaitReached(ctx context.Context, database *pgxpool.Pool, want map[string]int64) error {
	ctx, cancel := context.WithTimeout(ctx, patience-5*time.Second) // before the client gives up
	defer cancel()
	for {
		got, err := reached(ctx, database)
		if err != nil {
			return err
		}
		behind := ""
		for name, events := range want {
			if got[name] < events {
				behind = fmt.Sprintf("%s has %d events, not %d", name, got[name], events)
			}
		}
		if behind == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", behind, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// forReaders reports whether a mirror serves what its origin serves. It has no sandboxes.
func (r Request) forReaders() bool {
	isRead := r.Method == "" || r.Method == http.MethodGet || r.Method == http.MethodHead
	key, err := apikey.Parse(r.Bearer)
	inSandbox := err == nil && key.Kind() == apikey.Sandbox
	ofOrigin := strings.HasPrefix(r.Path, "/api/integrations") || strings.HasPrefix(r.Path, "/api/admin")
	return isRead && !inSandbox && !ofOrigin
}
