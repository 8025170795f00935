package rebuild_test

import (
	"flag"
	"os"
	"testing"

	"novelgate/internal/testdb"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		child()
		return
	}
	// Each check is a whole rebuild. The command line overrides this: -rapid.checks=1000.
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
	os.Exit(testdb.Run(m))
}
