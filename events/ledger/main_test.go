package ledger_test

import (
	"os"
	"testing"

	"novelgate/internal/testdb"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(childDatabase); url != "" {
		sealUntilKilled(url)
	}
	os.Exit(testdb.Run(m))
}
