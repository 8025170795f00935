package handover_test

import (
	"os"
	"testing"

	"novelgate/internal/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }
