package testdb

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"novelgate/internal/database"
)

// DatabaseURLVariable names the variable with the URL of a maintenance database. If it is set, tests use that server
// instead of the shared one.
const DatabaseURLVariable = "NOVELGATE_TEST_DATABASE_URL"

// running means that Run was called: this program can be the holder.
var running atomic.Bool

// Run is the body of TestMain, which must do nothing before it:
//
//	func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }
//
// It runs the tests, and fails when goroutines leak. Unless the command line says otherwise, eight tests run at a time,
// because most of them wait for a server, and rapid checks a property 25 times, because each check costs many
// statements.
func Run(m *testing.M) int {
	if os.Getenv(holderVariable) != "" { // this process was started to run the shared server
		if err := hold(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	for name, value := range map[string]string{"test.parallel": "8", "rapid.checks": "25"} {
		if flag.Lookup(name) == nil {
			continue // the package does not import rapid
		}
		if err := flag.Set(name, value); err != nil { // before m.Run, which parses the command line
			panic(err)
		}
	}
	running.Store(true)
	if code := m.Run(); code != 0 {
		return code // a failed test may leave goroutines
	}
	// Goroutines may take longer than pgx tries to cancel the statement of a connection that it gives up: 15 seconds.
	var leaks error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if leaks = goleak.Find(); leaks == nil { // tries for half a second
			return 0
		}
	}
	fmt.Fprintln(os.Stderr, "FAIL: the tests have left goroutines behind:", leaks)
	return 1
}

// SkipShort skips a test with -short, as make race runs it. The race detector would make a long test several times as
// long, and it lengthens the recovery times that tests of chaos measure.
func SkipShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("not with -short")
	}
}

// Patience limits waits, for example until events are projected or sealed. On a busy machine, filling a table in
// another test takes up to a minute.
const Patience = 3 * time.Minute

// Eventually polls until ok returns true. It fails the test after Patience. Between two calls it waits at least as
// long as ok takes, because what ok waits for needs the processors, too.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	wait := time.Millisecond
	for began := time.Now(); ; wait = min(2*wait, 20*time.Millisecond) {
		asked := time.Now()
		if ok() {
			return
		}
		if time.Since(began) > Patience {
			t.Fatalf("not within %v: %s", Patience, what)
		}
		time.Sleep(max(wait, time.Since(asked)))
	}
}

// Lose removes the first event that matches an SQL condition and all events after it, as a failover to a lagging
// standby does.
func Lose(t testing.TB, db database.Execer, condition string) {
	t.Helper()
	tag, err := db.Exec(context.Background(), `ALTER TABLE events DISABLE TRIGGER USER;
		DELETE FROM events WHERE log_index >= (SELECT min(log_index) FROM events WHERE `+condition+`)`)
	if err != nil {
		t.Fatalf("lose events: %v", err)
	}
	if tag.RowsAffected() == 0 {
		t.Fatalf("there are no events to lose: %s", condition)
	}
}
