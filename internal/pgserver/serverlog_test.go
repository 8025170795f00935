package pgserver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"novelgate/internal/pgserver"
	"novelgate/internal/testdb"
)

// TestLogIsKeptWithinBounds: the log of a running server is limited, and the server continues to write to it. A server
// logs every unique violation, for example.
func TestLogIsKeptWithinBounds(t *testing.T) {
	t.Parallel()
	const most = 16 << 20
	dir := dataDir(t)
	server := start(t, pgserver.Config{DataDir: dir}.WithLogInterval(50*time.Millisecond))
	conn, _ := backend(t, server)
	say := func(text string, times int) {
		t.Helper()
		for range times {
			testdb.Exec(t, conn, `DO $$ BEGIN RAISE LOG '%', repeat('x', 1000000) || ' `+text+`'; END $$`)
		}
	}
	log := filepath.Join(dir, "postgres.log")
	older := log + ".1"
	for _, round := range []string{"first", "second"} { // the second takes the place of the first
		say(round, most/1000000+1)
		testdb.Eventually(t, "the log of the "+round+" round is moved aside", func() bool {
			return strings.Contains(read(t, older), " "+round) && len(read(t, log)) < most/2
		})
		for _, path := range []string{log, older} {
			info := testdb.Must(os.Stat(path))(t)
			if info.Size() > most+2000000 || info.Mode().Perm() != 0o600 {
				t.Errorf("%s has %d bytes and mode %v", path, info.Size(), info.Mode())
			}
		}
	}
	say("afterwards", 1)
	testdb.Eventually(t, "the server writes on", func() bool { return strings.Contains(read(t, log), " afterwards") })
	if strings.Contains(read(t, log), "\x00") {
		t.Error("the log has a hole")
	}
}

// read returns the contents of a file, "" when there is none.
func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(content)
}
