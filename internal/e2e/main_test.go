package e2e_test

import (
	"os"
	"testing"

	"novelgate/internal/testdb"
)

func TestMain(m *testing.M) {
	code := testdb.Run(m)
	if err := removeBinaries(); err != nil {
		panic(err)
	}
	if err := os.RemoveAll(templateDir); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// brittle skips a chaos test with -short. Such a test measures recovery times, which the race detector lengthens.
func brittle(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("no chaos with -short")
	}
}
