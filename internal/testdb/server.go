package testdb

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"testing"

	"novelgate/internal/pgserver"
)

// NewServer starts a server that belongs to this test alone, with settings beside those that make it quick to start,
// and returns the URL of its empty database. The server stops when the test ends. It is for tests of what the databases
// of a server share: roles, autovacuum, recovery.
func NewServer(t testing.TB, settings map[string]string) string {
	t.Helper()
	// not t.TempDir: the path of a socket is short
	dir, err := os.MkdirTemp(DataPlace(), "novelgate-server-") //nolint:usetesting // see above
	if err != nil {
		t.Fatalf("testdb: make a data directory: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	all := map[string]string{"fsync": "off", "shared_buffers": "16MB"}
	maps.Copy(all, settings)
	server, err := pgserver.Start(t.Context(), pgserver.Config{
		DataDir: dir, Settings: all, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatalf("testdb: start a server: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Errorf("testdb: stop the server: %v", err)
		}
	})
	return server.URL()
}
