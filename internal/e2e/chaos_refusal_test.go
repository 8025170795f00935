package e2e_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"novelgate/internal/testdb"
)

const password = "PLANTED-DATABASE-PASSWORD"

// blackHole accepts connections and never answers.
func blackHole(t *testing.T) string {
	t.Helper()
	listener := testdb.Must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String() // the kernel accepts connections
}

// TestStartIsRefused: the message names what is wrong, without a password, and nothing is changed.
func TestStartIsRefused(t *testing.T) {
	t.Parallel()
	hole, user, database := blackHole(t), "postgres://somebody:"+password+"@", testdb.New(t)
	empty, old := testdb.NewEmpty(t), testdb.NewEmpty(t)
	execute(t, old, `CREATE TABLE events (transaction_id xid8, position integer, personal_digest bytea)`)
	for name, c := range map[string]struct {
		url   string
		flags []string
		words []string
	}{
		"nothing listens":        {user + "127.0.0.1:1/novelgate", nil, []string{"127.0.0.1:1", "connection refused"}},
		"nobody answers":         {user + hole + "/novelgate", nil, []string{hole}},
		"no such socket":         {user + "/novelgate?host=/nowhere", nil, []string{"/nowhere"}},
		"not a URL":              {user + "[::1/novelgate", nil, []string{"database URL"}},
		"no such database":       {strings.Replace(database, "/novelgate_test", "/nosuch", 1), unsafe, []string{"nosuch"}},
		"commands may be lost":   {empty, nil, []string{"fsync", unsafe[0]}},
		"an unreleased form":     {old, unsafe, []string{"unreleased version", "empty database", "events export"}},
		"--listen is in use":     {database, append(unsafe[:1:1], "--listen", hole), []string{hole, "already in use"}},
		"--ops-listen is in use": {database, append(unsafe[:1:1], "--ops-listen", hole), []string{hole, "already in use"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantRefusedStart(t, c.words, append([]string{"--database-url", c.url}, c.flags...)...)
			const tables = `SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace`
			if empty, old := value[int](t, empty, tables), value[int](t, old, tables); empty != 0 || old != 1 {
				t.Errorf("a refused start has made tables: %d, %d", empty, old)
			}
		})
	}
}

// TestCommandsDoNotHang runs staff commands on a database that does not exist or does not answer.
func TestCommandsDoNotHang(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:1", blackHole(t)} {
		for _, command := range []string{"migrate", "integration list"} {
			t.Run(fmt.Sprint(command, " ", address), func(t *testing.T) {
				t.Parallel()
				url := "postgres://somebody:" + password + "@" + address + "/novelgate"
				p := launch(t, append(strings.Fields(command), "--database-url", url)...)
				if code := p.wait(t); code != 1 || !strings.Contains(p.stderr.String(), address) {
					t.Errorf("exit code %d and %q, want 1 and the address", code, p.stderr)
				}
			})
		}
	}
}
