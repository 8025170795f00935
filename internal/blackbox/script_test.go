package blackbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"novelgate/internal/blackbox"
	"novelgate/internal/testdb"
)

// TestScripts runs each file of testdata/script on a database of its own, named by NOVELGATE_DATABASE_URL. The database is
// migrated unless the file's name begins with "empty_".
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("find scripts: %d files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newDatabase := testdb.New
			if strings.HasPrefix(name, "empty_") {
				newDatabase = testdb.NewEmpty
			}
			database, binary := newDatabase(t), blackbox.Binary(t)
			testscript.Run(t, testscript.Params{
				Files:               []string{file},
				RequireExplicitExec: true,
				Setup: func(env *testscript.Env) error {
					env.Setenv("PATH", filepath.Dir(binary)+string(filepath.ListSeparator)+os.Getenv("PATH"))
					env.Setenv("NOVELGATE_DATABASE_URL", database)
					env.Setenv("OTHER_DATABASE_URL", "postgres://nobody@127.0.0.1:1/nothing?connect_timeout=2")
					env.Setenv("GOCOVERDIR", os.Getenv("GOCOVERDIR"))
					return nil
				},
			})
		})
	}
}
