package chaos_test

import (
	"fmt"
	"os"
	"testing"

	"novelgate/internal/blackbox"
	"novelgate/internal/testdb"
)

func TestMain(m *testing.M) {
	code := testdb.Run(m)
	if err := blackbox.RemoveBinary(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
