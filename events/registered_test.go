package events_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/events"
)

var (
	sealedMethod = regexp.MustCompile(`(?m)^func \(\w* ?(\w+)\) isEvent\(\)`)
	typeMethod   = regexp.MustCompile(`(?m)^func \(\w* ?(\w+)\) Type\(\) string \{ return "([a-z]+\.[a-z_]+\.v[1-9][0-9]*)" \}$`)
)

// TestEveryEventIsRegistered reads the source: an event struct that is missing in the registry could be appended and
// never decoded. The type of each is one literal of the form stream.what_happened.v1.
func TestEveryEventIsRegistered(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var sealed, typed, declared []string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, found := range sealedMethod.FindAllSubmatch(text, -1) {
			sealed = append(sealed, string(found[1]))
		}
		for _, found := range typeMethod.FindAllSubmatch(text, -1) {
			typed, declared = append(typed, string(found[1])), append(declared, string(found[2]))
		}
	}
	registered := events.Types()
	for _, list := range [][]string{sealed, typed, declared, registered} {
		slices.Sort(list)
	}
	if diff := cmp.Diff(sealed, typed); diff != "" || len(sealed) == 0 {
		t.Errorf("structs (-with isEvent() +with a literal Type()):\n%s", diff)
	}
	if diff := cmp.Diff(declared, registered); diff != "" {
		t.Errorf("types (-declared +registered):\n%s", diff)
	}
}
