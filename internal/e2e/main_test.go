package e2e_test

import (
	"errors"
	"os"
	"testing"

	"novelgate/internal/testdb"
)

func TestMain(m *testing.M) {
	code := testdb.Run(m)
	if err := errors.Join(removeBinaries(), os.RemoveAll(templateDir)); err != nil {
		panic(err)
	}
	os.Exit(code)
}
