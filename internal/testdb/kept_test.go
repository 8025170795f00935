package testdb_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/internal/testdb"
)

// failures counts the errors of a test.
type failures struct {
	testing.TB
	said []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

// TestKept: what was promised must be there, whether the file is updated or not; an update only adds.
func TestKept(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		now    []string
		update bool
		errors int
		file   string
	}{
		"as it was":         {[]string{"b", "a 1"}, false, 0, "a 1\nb\n"},
		"more":              {[]string{"b", "a 1", "a"}, false, 1, "a 1\nb\n"},
		"more, updated":     {[]string{"b", "a 1", "a", "a"}, true, 0, "a\na 1\nb\n"},
		"less":              {[]string{"a 1"}, false, 1, "a 1\nb\n"},
		"renamed, updated":  {[]string{"a 1", "c"}, true, 1, "a 1\nb\nc\n"},
		"renamed":           {[]string{"a 1", "c"}, false, 2, "a 1\nb\n"},
		"nothing, updating": {nil, true, 2, "a 1\nb\n"},
	} {
		path := filepath.Join(t.TempDir(), "kept")
		testdb.NoError(t, os.WriteFile(path, []byte("a 1\nb\n"), 0o600))
		f := &failures{TB: t}
		testdb.Kept(f, path, test.now, test.update)
		if len(f.said) != test.errors {
			t.Errorf("%s: %q, want %d errors", name, f.said, test.errors)
		}
		if diff := cmp.Diff(test.file, string(testdb.Must(os.ReadFile(path))(t))); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}
