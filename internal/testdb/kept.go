package testdb

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Kept compares the lines of a file, which were promised, with what there is now. It fails for a line that is there no
// more: whoever removes it from the file breaks the promise. It also fails for new lines, which update adds to the
// file.
func Kept(t testing.TB, path string, now []string, update bool) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	kept := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	for _, line := range kept {
		if !slices.Contains(now, line) {
			t.Errorf("%s promises what is there no more: %s", path, line)
		}
	}
	added := slices.DeleteFunc(slices.Clone(now), func(line string) bool { return slices.Contains(kept, line) })
	switch {
	case len(added) == 0:
	case update:
		all := slices.Sorted(slices.Values(append(kept, added...)))
		text = []byte(strings.Join(slices.Compact(all), "\n") + "\n")
		NoError(t, os.WriteFile(path, text, 0o600)) //nolint:gosec // the path is in the test
	default:
		t.Errorf("new, to be added to %s with -update: %q", path, added)
	}
}
