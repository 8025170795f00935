package e2e_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// wantRefusedStart checks that the service ends soon with an exit code and a message with all the words, without a
// stack trace or a password.
func wantRefusedStart(t *testing.T, code int, words []string, flags ...string) {
	t.Helper()
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"}, flags...)
	p := launch(t, args...)
	began := time.Now()
	if got := p.wait(t); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
	said := p.stderr.String()
	if strings.Contains(said, "panic") || strings.Contains(said, "goroutine ") {
		t.Errorf("the service ends in a panic:\n%s", said)
	}
	for _, word := range words {
		if !strings.Contains(said, word) {
			t.Errorf("the message lacks %q:\n%s", word, said)
		}
	}
	if strings.Contains(p.stdout.String(), "Novelgate is listening") {
		t.Error("the service says that it listens")
	}
	t.Logf("refused after %v: %s", time.Since(began).Round(time.Millisecond), lastLines(strings.TrimSpace(said), 1))
}

const password = "PLANTED-DATABASE-PASSWORD"

// blackHole accepts connections and never answers.
func blackHole(t *testing.T) string {
	t.Helper()
	listener := testdb.Must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String() // the kernel accepts connections
}

func TestStartIsRefused(t *testing.T) {
	t.Parallel()
	unsafe := "--allow-unsafe-durability"
	hole := blackHole(t)
	user := "postgres://somebody:" + password + "@"
	for name, test := range map[string]struct {
		code  int
		words []string
		flags []string
	}{
		"nothing listens": {
			1, []string{"127.0.0.1:1", "connection refused"}, []string{"--database-url", user + "127.0.0.1:1/novelgate"},
		},
		"nobody answers": {1, []string{hole}, []string{"--database-url", user + hole + "/novelgate"}},
		"no such socket": {
			1, []string{"/nowhere"}, []string{"--database-url", "postgres://somebody:" + password + "@/novelgate?host=/nowhere"},
		},
		"not a URL": {
			1, []string{"database URL"}, []string{"--database-url", "postgres://somebody:" + password + "@[::1/novelgate"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantRefusedStart(t, test.code, test.words, test.flags...)
		})
	}
	t.Run("senseless settings", func(t *testing.T) {
		t.Parallel()
		database := testdb.New(t)
		for _, flags := range [][]string{
			{"--request-timeout", "0s"},
			{"--request-timeout=-1s"},
			{"--public-url", "novels.example"},
		} {
			p := launch(t,
				append([]string{
					"serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--data-dir", t.TempDir(), "--database-url",
					database, unsafe,
				}, flags...)...)
			if code := p.wait(t); code != 1 && code != 80 {
				t.Errorf("%v: exit code %d, want 1 or 80", flags, code)
			}
			if said := p.stderr.String(); strings.Contains(said, "goroutine ") ||
				!strings.Contains(said, strings.TrimLeft(strings.Split(flags[0], "=")[0], "-")) {
				t.Errorf("%v: the message does not name the flag:\n%s", flags, said)
			}
		}
	})
	t.Run("a database that may lose commands", func(t *testing.T) {
		t.Parallel()
		database := testdb.NewEmpty(t) // fsync is off
		wantRefusedStart(t, 1, []string{"fsync", unsafe}, "--database-url", database)
		if tables := value[int](t, database, `SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace`); tables != 0 {
			t.Errorf("a refused start has made %d tables and indexes", tables)
		}
	})
	t.Run("no such database", func(t *testing.T) {
		t.Parallel()
		database := testdb.New(t)
		wantRefusedStart(t, 1, []string{"nosuchdatabase"}, unsafe, "--database-url",
			strings.Replace(database, "/novelgate_test", "/nosuchdatabase", 1))
	})
	t.Run("the log has an unreleased form", func(t *testing.T) {
		t.Parallel()
		database := testdb.NewEmpty(t)
		execute(t, database, `CREATE TABLE events (transaction_id xid8, position integer, personal_digest bytea)`)
		wantRefusedStart(t, 1, []string{"unreleased version", "empty database", "events export"}, unsafe, "--database-url",
			database)
		const tables = `SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace`
		if n := value[int](t, database, tables); n != 1 {
			t.Errorf("%d tables", n)
		}
	})
	for _, flag := range []string{"--listen", "--ops-listen"} {
		t.Run(flag+" is in use", func(t *testing.T) {
			t.Parallel()
			wantRefusedStart(t, 1, []string{hole, "address already in use"}, unsafe, "--database-url", testdb.New(t), flag, hole)
		})
	}
}

// TestCommandsDoNotHang runs staff commands on a database that does not exist or does not answer.
func TestCommandsDoNotHang(t *testing.T) {
	t.Parallel()
	hole := blackHole(t)
	for _, address := range []string{"127.0.0.1:1", hole} {
		for _, command := range []string{
			"migrate", "integration list", "novel publish x",
		} {
			t.Run(fmt.Sprint(command, " ", address == hole), func(t *testing.T) {
				t.Parallel()
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				p := launch(t,
					append(strings.Fields(command), "--database-url", "postgres://somebody:"+password+"@"+address+"/novelgate")...)
				select {
				case <-p.exited:
				case <-ctx.Done():
					t.Fatalf("novelgate %s has not ended after %v", command, time.Since(began))
				}
				if code := p.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(p.stderr.String(), address) {
					t.Errorf("exit code %d and %q, want 1 and the address", code, p.stderr)
				}
			})
		}
	}
}
