package e2e_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// TestCommandsInTrouble: while commits wait for a synchronous standby that is not there, every command says so within
// ten seconds. After an interrupt a command that changes something says that the outcome is unknown, and where to look.
func TestCommandsInTrouble(t *testing.T) {
	t.Parallel()
	url := startServer(t, nil).url()
	p := newPartner(t, url)
	execute(t, url, `ALTER SYSTEM SET synchronous_standby_names = 's1'`, `SELECT pg_reload_conf()`, `CHECKPOINT`)
	for command, outcome := range map[string]string{
		"integration limit " + p.IntegrationID + " --posts-per-minute 7": "; outcome unknown, the change may have been " +
			"made: see `novelgate integration list`",
		"events verify": "",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			c := launch(t, append(strings.Fields(command), "--database-url", url)...)
			const waits = "novelgate: waiting for the synchronous standby s1, which is not connected\n"
			testdb.Eventually(t, "the command says what it waits for", func() bool {
				return strings.Contains(c.stderr.String(), waits)
			})
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it said so after %v", took)
			}
			c.signal(t, syscall.SIGINT)
			if code := c.wait(t); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if got := c.stderr.String(); got != waits+"novelgate: interrupted"+outcome+"\n" || c.stdout.String() != "" {
				t.Errorf("%q on standard error, %q on standard output", got, c.stdout)
			}
		})
	}
}

// TestFirstStart: the first start on a database of one's own says how to go on, later ones do not.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	url := testdb.NewEmpty(t)
	for _, want := range []bool{true, false} {
		s := Start(t, url)
		s.line(t, "No member of staff has an API key. Make one: novelgate staff create NAME --database-url URL")
		const next = "This is the first start on this database. Register a partner, and get its API key: novelgate " +
			"integration create NAME --capability novels --capability posts --database-url URL\n"
		if said := s.stdout.String(); strings.Contains(said, next) != want || strings.Contains(said, "ngp_") {
			t.Errorf("first start: %t\n%s", want, said)
		}
		s.Stop(t)
	}
}
