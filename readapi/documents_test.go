package readapi_test

import (
	"archive/zip"
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"novelgate/internal/testdb"
)

// TestGuidesOfPartners: the service has the documents that they link, beside them.
func TestGuidesOfPartners(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, guide := range []string{"partners.md", "partner-clients.md", "SPEC.md"} {
		text := w.get(t, "/docs/"+guide).Body.String()
		for _, link := range regexp.MustCompile(`\]\(([\w-]+\.md)`).FindAllStringSubmatch(text, -1) {
			if answer := w.get(t, "/docs/"+link[1]); answer.Code != http.StatusOK {
				t.Errorf("%s links %s: %d", guide, link[1], answer.Code)
			}
		}
	}
}

// TestClientZip unpacks the client in a module of a partner, as the guide says, and builds a program with it there.
func TestClientZip(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	packed := w.get(t, "/docs/client.zip").Body.Bytes()
	archive := testdb.Must(zip.NewReader(bytes.NewReader(packed), int64(len(packed))))(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, archive); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.mod": "module example.com/reader\n\ngo 1.26\n",
		"main.go": `package main

import "example.com/reader/client"

func main() { _, _ = client.New("https://novels.example.org", "ngp_") }
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	vet := exec.CommandContext(t.Context(), "go", "vet", "./...")
	vet.Dir, vet.Env = dir, append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off", "GOPROXY=off")
	if out, err := vet.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
