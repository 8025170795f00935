//go:build checks

// Package checks has the tools that check pages: validators, and scripts for Chromium.
package checks

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

//go:embed *.json *.mjs *.rng *.xsd
var files embed.FS

// Tools is a directory with the installed tools of package.json.
type Tools string

// Install returns a directory with the tools, and with more files beside them. It installs the tools with npm once for
// each version of package-lock.json, in the user's cache: that takes a minute.
func Install(t *testing.T, more ...fs.FS) Tools {
	t.Helper()
	dir := t.TempDir()
	for _, part := range append(more, files) {
		testdb.NoError(t, os.CopyFS(dir, part))
	}
	lock := testdb.Must(files.ReadFile("package-lock.json"))(t)
	cache := filepath.Join(testdb.Must(os.UserCacheDir())(t), "novelgate")
	testdb.NoError(t, os.MkdirAll(cache, 0o700))
	installed := filepath.Join(cache, fmt.Sprintf("checks-%x", sha256.Sum256(lock)))
	if _, err := os.Stat(installed); err != nil {
		made := testdb.Must(os.MkdirTemp(cache, "install-"))(t)
		testdb.NoError(t, os.CopyFS(made, files))
		Tools(made).Run(t, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline")
		if err := os.Rename(made, installed); err != nil { // another test was faster
			testdb.NoError(t, os.RemoveAll(made))
		}
	}
	testdb.NoError(t, os.Symlink(filepath.Join(installed, "node_modules"), filepath.Join(dir, "node_modules")))
	return Tools(dir)
}

// Write writes a file beside the tools.
func (d Tools) Write(t *testing.T, file string, content []byte) {
	t.Helper()
	testdb.NoError(t, os.WriteFile(filepath.Join(string(d), file), content, 0o600))
}

// Run runs a program, which must succeed, beside the tools. It returns its standard output.
func (d Tools) Run(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.WaitDelay = string(d), time.Minute
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Errorf("%s %.60s: %v\n%.6000s%.6000s", name, strings.Join(args, " "), err, said.String(), out.String())
	}
	return out.Bytes()
}

// Chromium returns the path of Chromium.
func Chromium(t *testing.T) string {
	t.Helper()
	return testdb.Must(exec.LookPath("chromium"))(t)
}
