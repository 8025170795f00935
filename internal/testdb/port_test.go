package testdb_test

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"novelgate/internal/testdb"
)

// TestReservePort: nothing listens at a reserved port, until the test does, also repeatedly and with clients.
func TestReservePort(t *testing.T) {
	t.Parallel()
	address := fmt.Sprint("127.0.0.1:", testdb.ReservePort(t))
	dial := func() (net.Conn, error) { return (&net.Dialer{}).DialContext(t.Context(), "tcp", address) }
	if _, err := dial(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("before a server listens: %v", err)
	}
	for range 3 {
		var listener net.Listener
		// A process that another test forks has the last listener until it executes its program.
		testdb.Eventually(t, "a server listens at the port", func() (ok bool) {
			var err error
			listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
			return err == nil
		})
		client := testdb.Must(dial())(t)
		server := testdb.Must(listener.Accept())(t)
		if err := errors.Join(listener.Close(), server.Close(), client.Close()); err != nil {
			t.Error(err)
		}
	}
	testdb.Eventually(t, "nothing listens after the server", func() bool {
		client, err := dial()
		if err == nil {
			testdb.NoError(t, client.Close())
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
}
