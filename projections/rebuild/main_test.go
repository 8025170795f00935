package rebuild_test

import (
	"os"
	"testing"

	"novelgate/internal/testdb"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		child()
		return
	}
	os.Exit(testdb.Run(m))
}
