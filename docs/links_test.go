package docs_test

import (
	"bytes"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
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

var (
	heading       = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	anchor        = regexp.MustCompile(`<a id="([^"]+)"`)
	linkText      = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notInAnchors  = regexp.MustCompile(`[^\pL\pN_ -]`)
	fencedListing = regexp.MustCompile("(?ms)^ *```.*?^ *```")
)

// anchors returns the fragments that a document has, as GitHub makes them of headings.
func anchors(document []byte) (found []string) {
	text := fencedListing.ReplaceAllString(string(document), "")
	for _, match := range anchor.FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	for _, match := range heading.FindAllStringSubmatch(text, -1) {
		plain := notInAnchors.ReplaceAllString(strings.ToLower(linkText.ReplaceAllString(match[1], "$1")), "")
		found = append(found, strings.ReplaceAll(plain, " ", "-"))
	}
	return found
}

// TestRelativeLinksExist: a relative link of a document names a file and a heading that exist.
func TestRelativeLinksExist(t *testing.T) {
	t.Parallel()
	toFiles, toHeadings := 0, 0
	for _, source := range files(t, ".md") {
		for _, match := range link.FindAllSubmatch(code.ReplaceAll(read(t, source), nil), -1) {
			target, err := url.Parse(string(match[1]) + string(match[2]))
			if err != nil {
				t.Errorf("%s: %v", source, err)
				continue
			}
			if target.Scheme != "" || target.Host != "" {
				continue
			}
			file := source
			if target.Path != "" {
				toFiles++
				file = path.Join(path.Dir(source), target.Path)
				if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
					t.Errorf("%s links to %s: %v", source, target, err)
					continue
				}
			}
			if target.Fragment != "" && path.Ext(file) == ".md" {
				toHeadings++
				if !slices.Contains(anchors(read(t, file)), target.Fragment) {
					t.Errorf("%s links to %s, which has no such heading", source, target)
				}
			}
		}
	}
	if toFiles == 0 || toHeadings == 0 {
		t.Errorf("%d links to files and %d to headings were found", toFiles, toHeadings)
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
