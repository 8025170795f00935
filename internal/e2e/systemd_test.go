package e2e_test

import (
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// TestSystemd: the service tells when it is ready, that it lives, and that it stops. Its log is JSON for a collector.
func TestSystemd(t *testing.T) {
	t.Parallel()
	address := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"}
	socket := testdb.Must(net.ListenUnixgram("unixgram", address))(t)
	t.Cleanup(func() { _ = socket.Close() })
	hears := func(want string) {
		t.Helper()
		testdb.NoError(t, socket.SetReadDeadline(time.Now().Add(patience)))
		message := make([]byte, 100)
		n := testdb.Must(socket.Read(message))(t)
		for string(message[:n]) == "WATCHDOG=1" && want != "WATCHDOG=1" {
			n = testdb.Must(socket.Read(message))(t)
		}
		if got := string(message[:n]); got != want {
			t.Errorf("systemd hears %q, want %q", got, want)
		}
	}
	s := Attach("")
	s.process = launchProgram(t, "env", "NOTIFY_SOCKET="+address.Name, "WATCHDOG_USEC=30000", Binary(t), "serve",
		"--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--data-dir", t.TempDir(), "--allow-unsafe-durability",
		"--database-url", testdb.New(t), "--log-format", "json")
	hears("READY=1")
	hears("WATCHDOG=1")
	hears("WATCHDOG=1")
	s.URL = s.line(t, "Novelgate is listening on ")
	s.Stop(t)
	hears("STOPPING=1")
	for line := range strings.Lines(s.stderr.String()) {
		var entry struct{ Msg, Version string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || (entry.Msg == "starting") != (entry.Version != "") {
			t.Errorf("%v: %s", err, line)
		}
	}
	if !strings.Contains(s.stderr.String(), `"msg":"starting"`) {
		t.Error("the log does not say what started")
	}
}
