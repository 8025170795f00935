//go:build checks

package e2e_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/internal/testdb"
)

// image is an unpacked container image.
type image struct {
	root      string
	inspected struct {
		Docker struct {
			Config struct {
				User, WorkingDir     string
				Env, Entrypoint, Cmd []string
				Healthcheck          struct{ Test []string }
			}
		}
	}
}

// newImage builds the image by make image and unpacks it.
func newImage(t *testing.T) *image {
	t.Helper()
	if _, err := exec.LookPath("buildah"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and buildah")
	}
	dir := t.TempDir()
	buildah := []string{"buildah", "--storage-driver", "vfs", "--root", dir + "/root", "--runroot", dir + "/run"}
	run := func(args ...string) string {
		command := exec.CommandContext(t.Context(), args[0], args[1:]...)
		command.Dir = "../.."
		var stderr strings.Builder
		command.Stderr = &stderr
		out, err := command.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s%s", args, err, out, &stderr)
		}
		return strings.TrimSpace(string(out))
	}
	run("make", "image", "BUILDAH="+strings.Join(buildah, " "))
	i := &image{}
	inspected := run(slices.Concat(buildah, []string{"inspect", "--type", "image", "novelgate"})...)
	testdb.NoError(t, json.Unmarshal([]byte(inspected), &i.inspected))
	container := run(slices.Concat(buildah, []string{"from", "--pull-never", "novelgate"})...)
	i.root = run(slices.Concat(buildah, []string{"mount", container})...)
	return i
}

// start runs a command in the image as its user, with its environment and variables of the operator.
func (i *image) start(t *testing.T, variables []string, args ...string) *process {
	t.Helper()
	chroot := testdb.Must(exec.LookPath("chroot"))(t)
	return launchProgram(t, "env", slices.Concat([]string{"-i"}, i.inspected.Docker.Config.Env, variables,
		[]string{chroot, "--userspec=" + i.inspected.Docker.Config.User, i.root}, args)...)
}

// files lists what is in the image with its owner.
func (i *image) files(t *testing.T) (found []string) {
	t.Helper()
	testdb.NoError(t, filepath.Walk(i.root, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			owner := info.Sys().(*syscall.Stat_t)
			found = append(found, fmt.Sprintf("%s %d %s", info.Mode(), owner.Uid, strings.TrimPrefix(path, i.root)))
		}
		return err
	}))
	return found[1:] // without the root itself
}

// TestImage: what is in the image is enough for a service that becomes ready and signs the ledger, and for its health
// check. Its user may write to the data directory only.
func TestImage(t *testing.T) {
	i := newImage(t)
	if diff := cmp.Diff([]string{
		"drwxr-xr-x 0 /etc", "-rw-r--r-- 0 /etc/passwd", "drwxr-xr-x 0 /etc/ssl", "drwxr-xr-x 0 /etc/ssl/certs",
		"-rw-r--r-- 0 /etc/ssl/certs/ca-certificates.crt", "drwxr-xr-x 0 /usr", "drwxr-xr-x 0 /usr/bin",
		"-rwxr-xr-x 0 /usr/bin/novelgate", "drwxr-xr-x 0 /var", "drwxr-xr-x 0 /var/lib",
		"drwx------ 65532 /var/lib/novelgate",
	}, i.files(t)); diff != "" {
		t.Errorf("files (-want +got)\n%s", diff)
	}

	// The socket of the test's server is not in the image.
	target := testdb.Must(url.Parse(testdb.New(t)))(t)
	network, socket, _ := addressOf(target)
	through, query := *target, target.Query()
	query.Del("host")
	query.Del("port")
	through.Host, through.RawQuery = fmt.Sprintf("127.0.0.1:%d", testdb.ReservePort(t)), query.Encode()
	var w wire
	w.forward(t, "tcp", through.Host, func() (net.Conn, error) { return net.Dial(network, socket) })
	t.Cleanup(func() { w.Cut(); w.all.Wait() })

	variables := []string{
		"NOVELGATE_DATABASE_URL=" + through.String(), "NOVELGATE_ALLOW_UNSAFE_DURABILITY=true",
		"NOVELGATE_LISTEN=127.0.0.1:0", fmt.Sprintf("NOVELGATE_OPS_LISTEN=:%d", testdb.ReservePort(t)),
	}
	config := i.inspected.Docker.Config
	check := func(args ...string) int {
		t.Helper()
		return i.start(t, variables, append(config.Healthcheck.Test[1:], args...)...).wait(t)
	}
	if code := check(); code != 1 {
		t.Errorf("before the start the health check ends with %d", code)
	}
	service := i.start(t, variables, append(config.Entrypoint, config.Cmd...)...)
	testdb.Eventually(t, "the service is healthy", func() bool { return check() == 0 })
	s := Attach(strings.TrimRight(service.line(t, "Novelgate is listening on "), "/"))
	s.process, s.DatabaseURL = service, target.String()
	s.NewPartner(t).Import(t, Key(), Comment(Unique("Packed"))).WantPost(t, 201)
	awaitSigned(t, s.DatabaseURL)
	if code := i.start(t, variables, "novelgate", "staff", "create", "ada").wait(t); code != 0 {
		t.Errorf("a command in the container ends with %d", code)
	}
	w.Cut()
	testdb.Eventually(t, "the health check fails without the database", func() bool { return check() == 1 })
	if code := check("--live"); code != 0 {
		t.Errorf("the service lives, but the health check ends with %d", code)
	}
	s.Stop(t)
}
