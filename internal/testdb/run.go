package testdb

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// DatabaseURLVariable names the environment variable with the maintenance database of a server to use
// instead of the shared one.
const DatabaseURLVariable = "NOVELGATE_TEST_DATABASE_URL"

// shared is this process's membership, made by the first test that needs a database.
var shared struct {
	sync.Mutex
	running bool // Run is under way
	url     string
	err     error
	member  *membership
}

// Run is the body of TestMain, which must do nothing before it:
//
//	func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }
//
// It runs the tests, leaves the shared server if a test has joined it, and fails when goroutines leak. Unless the
// command line says otherwise, eight tests run at a time, because most of them wait for a server, and rapid checks a
// property 25 times, because each check costs many statements.
func Run(m *testing.M) int {
	if dir := os.Getenv(holderVariable); dir != "" {
		return hold(dir)
	}
	for name, value := range map[string]string{"test.parallel": "8", "rapid.checks": "25"} {
		if flag.Lookup(name) == nil {
			continue // the package does not import rapid
		}
		if err := flag.Set(name, value); err != nil { // m.Run parses the command line later
			panic(err)
		}
	}
	shared.Lock()
	shared.running = true
	shared.Unlock()
	defer leaveShared()
	code := m.Run()
	if code != 0 {
		return code // a failed test rarely tidies up
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: the tests have left goroutines behind:", err)
		return 1
	}
	return 0
}

// serverURL joins the shared server on first use.
func serverURL() (string, error) {
	if url := os.Getenv(DatabaseURLVariable); url != "" {
		return url, nil
	}
	shared.Lock()
	defer shared.Unlock()
	if !shared.running {
		return "", fmt.Errorf("the package needs: func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }")
	}
	if shared.url == "" && shared.err == nil {
		shared.member, shared.url, shared.err = join(controlDir())
	}
	return shared.url, shared.err
}

func leaveShared() {
	shared.Lock()
	defer shared.Unlock()
	if shared.member != nil {
		shared.member.leave()
	}
}
