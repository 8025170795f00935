package e2e_test

import (
	"os"
	"testing"

	"novelgate/internal/testdb"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == natsCommand {
		os.Exit(runNATS(os.Args[2:]))
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
