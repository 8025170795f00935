package chaos_test

import (
	"os"
	"testing"

	"novelgate/internal/blackbox"
)

func TestMain(m *testing.M) {
	code := blackbox.Run(m, 4)
	if err := os.RemoveAll(templateDir); err != nil {
		panic(err)
	}
	os.Exit(code)
}
