package docs_test

import (
	"bytes"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = ".."

// files returns the tracked files with one of the extensions, as slash-separated paths from the root. Outside a git
// checkout it returns all files that are not hidden.
func files(t *testing.T, extensions ...string) []string {
	t.Helper()
	var found []string
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	list.Dir = root
	if listed, err := list.Output(); err == nil {
		found = strings.Split(strings.TrimSuffix(string(listed), "\x00"), "\x00")
	} else if err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.Type().IsRegular():
			found = append(found, path)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	found = slices.DeleteFunc(found, func(path string) bool { return !slices.Contains(extensions, filepath.Ext(path)) })
	if len(found) == 0 {
		t.Fatalf("no files %v", extensions)
	}
	return found
}

// read returns nil for a tracked file that was deleted.
func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return text
}

var (
	code = regexp.MustCompile("(?ms)^ *```.*?^ *```|`[^`\n]*`")
	link = regexp.MustCompile(`\]\(<?([^)\s>]+)|(?m:^ *\[[^\]]+\]: *<?([^\s>]+))`)
)

func TestRelativeLinksExist(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, path := range files(t, ".md") {
		for _, match := range link.FindAllSubmatch(code.ReplaceAll(read(t, path), nil), -1) {
			target, err := url.Parse(string(match[1]) + string(match[2]))
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			if target.Scheme != "" || target.Host != "" || target.Path == "" {
				continue
			}
			checked++
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(filepath.FromSlash(path)),
				filepath.FromSlash(target.Path))); err != nil {
				t.Errorf("%s links to %s: %v", path, target, err)
			}
		}
	}
	if checked == 0 {
		t.Error("no relative link was found")
	}
}

// TestNoPathsOfOneMachine: a path that exists where the text was written means nothing to its readers.
func TestNoPathsOfOneMachine(t *testing.T) {
	t.Parallel()
	machine := regexp.MustCompile(`(?m)(?:^|[^\w.~-])/(?:work|root)/.*`)
	if !machine.MatchString(`see "/`+`work/x`) || machine.MatchString("https://novels.example.org/"+"work/x") {
		t.Fatal("the expression does not find what it should")
	}
	for _, path := range files(t, ".md", ".go", ".yaml", ".yml", ".sql") {
		for _, found := range machine.FindAll(read(t, path), -1) {
			t.Errorf("%s: %s", path, bytes.TrimSpace(found))
		}
	}
}
