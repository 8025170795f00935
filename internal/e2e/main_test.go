package e2e_test

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"novelgate/internal/testdb"
)

func TestMain(m *testing.M) {
	const atOnce = 8                                                        // most tests wait for other processes
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil { // the command line is parsed later
		panic(err)
	}
	code := testdb.Run(m)
	if err := removeBinaries(); err != nil {
		panic(err)
	}
	if err := os.RemoveAll(templateDir); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// brittle skips a chaos test with -short: it measures how fast things recover, and the race detector slows everything
// down.
func brittle(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("no chaos with -short")
	}
}
