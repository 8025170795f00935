package blackbox

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	"novelgate/internal/testdb"
)

// Run runs the tests of a package that starts services, so many at a time unless -parallel says so: most of them wait
// for other processes. It returns the exit code for TestMain.
func Run(m *testing.M, atOnce int) int {
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil { // the command line is parsed later
		panic(err)
	}
	code := testdb.Run(m)
	if err := removeBinaries(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}
