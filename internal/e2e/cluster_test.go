package e2e_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"novelgate/internal/testdb"
)

// clusterProgram builds the program of make run-cluster.
var clusterProgram = sync.OnceValues(func() (string, error) {
	return build("cluster", "novelgate/internal/cluster", false)
})

// launchCluster starts the cluster with a directory for temporary files, on free ports.
func launchCluster(t *testing.T, dir string, flags ...string) *process {
	t.Helper()
	testdb.SkipShort(t)
	return launchProgram(t, "env", clusterArgs(t, dir, flags...)...)
}

// clusterArgs are the arguments of env that start the cluster, with the patience of a test on a busy machine.
func clusterArgs(t *testing.T, dir string, flags ...string) []string {
	t.Helper()
	return slices.Concat([]string{
		"TMPDIR=" + dir, "NOVELGATE_REQUEST_TIMEOUT=30s", built(t, clusterProgram), "--binary", Binary(t),
		"--port", fmt.Sprint(freePorts(t)),
	}, flags)
}

// portRange is how many ports a cluster takes; ranges counts those that were tried.
const portRange = 12

var ranges atomic.Int64

// freePorts returns the first port of a free range, below the ports that the system gives to others. No two tests get
// the same one, and tests of other processes begin elsewhere.
func freePorts(t *testing.T) int {
	t.Helper()
	const lowest, all = 20_000, 1000
	for range all {
		first := lowest + (os.Getpid()*7+int(ranges.Add(1)))%all*portRange
		if isFree(first) {
			return first
		}
	}
	t.Fatal("no free ports")
	return 0
}

// isFree reports whether nothing listens in the range.
func isFree(first int) bool {
	for port := first; port < first+portRange; port++ {
		listener, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			return false
		}
		_ = listener.Close() // nobody has connected
	}
	return true
}

// running returns the command lines that have the text, by process.
func running(t *testing.T, text string) map[int]string {
	t.Helper()
	files := testdb.Must(filepath.Glob("/proc/[0-9]*/cmdline"))(t)
	found := make(map[int]string)
	for _, file := range files {
		pid, numberErr := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		line, err := os.ReadFile(file) // it may have ended
		if err == nil && numberErr == nil && strings.Contains(string(line), text) {
			found[pid] = strings.ReplaceAll(string(line), "\x00", " ")
		}
	}
	return found
}

func wantNoProcess(t *testing.T, dir string) {
	t.Helper()
	testdb.Eventually(t, "no process is left", func() bool { return len(running(t, dir)) == 0 })
}

// TestRunCluster: the program prints addresses that work, and a command that does. The comment of that command arrives
// at the other replica, at the mirror, and in JetStream. Ctrl-C leaves nothing behind.
func TestRunCluster(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	p := launchCluster(t, dir)
	command := "curl " + p.line(t, "curl ")
	field := func(name string) []string { return strings.Fields(p.line(t, name)) }
	service := func(name string) *Service {
		s := Attach(strings.TrimRight(field(name)[0], "/"))
		s.OpsURL = field(name)[2]
		t.Cleanup(s.http.CloseIdleConnections)
		return s
	}
	second, mirror := service("replica 2"), service("mirror")
	if len(running(t, dir)) < 8 {
		t.Errorf("these processes run: %v", running(t, dir))
	}
	answer, err := exec.CommandContext(t.Context(), "sh", "-c", command).Output()
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 201") {
		t.Fatalf("%s\n%s %v", command, answer, err)
	}
	const words = "Could not put it down!"
	for _, s := range []*Service{second, mirror} {
		testdb.Eventually(t, "the comment is on the page of "+s.URL, func() bool {
			status, page := Get(t, s.URL+"/novels/the-hunger-games/discussion")
			return status == 200 && strings.Contains(page, words)
		})
	}
	conn, err := nats.Connect(field("NATS")[0])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	testdb.Eventually(t, "the comment is in JetStream, in three replicas", func() bool {
		name, err := js.StreamNameBySubject(t.Context(), "novelgate.personal.v1.>")
		if err != nil {
			return false
		}
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			return false
		}
		message, err := stream.GetLastMsgForSubject(t.Context(), "novelgate.personal.v1.*.post.imported.v1")
		return err == nil && strings.Contains(string(message.Data), words) && stream.CachedInfo().Config.Replicas == 3
	})
	conn.Close()

	p.signal(t, syscall.SIGINT)
	if code := p.wait(t); code != 0 {
		t.Errorf("the cluster ended with %d", code)
	}
	wantNoProcess(t, dir)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
}

// TestRunClusterPart: when a part dies the cluster names it, stops the others and fails. With --data-dir the next start
// finds the data.
func TestRunClusterPart(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	p := launchCluster(t, dir, "--data-dir", filepath.Join(dir, "kept"))
	key := p.line(t, "API key")
	for pid, line := range running(t, dir) {
		if strings.Contains(line, " nats 1 ") {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	if code := p.wait(t); code != 1 || !strings.Contains(p.stderr.String(), "cluster: nats-2 has ended") {
		t.Errorf("the cluster ended with %d\n%s", code, p.stderr)
	}
	wantNoProcess(t, dir)
	p = launchCluster(t, dir, "--data-dir", filepath.Join(dir, "kept"))
	if again := p.line(t, "API key"); again != key {
		t.Errorf("the key is %s, and %s before", again, key)
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.wait(t); code != 0 {
		t.Errorf("the cluster ended with %d", code)
	}
	wantNoProcess(t, dir)
}

// TestRunClusterUnread: when the reader of its output ends, the cluster stops and leaves nothing behind.
func TestRunClusterUnread(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	testdb.SkipShort(t)
	output, unread, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := output.Close(); err != nil {
		t.Fatal(err)
	}
	p := launchProgramTo(t, unread, "env", clusterArgs(t, dir)...)
	_ = unread.Close() // the program has it
	if code := p.wait(t); code != 0 {
		t.Errorf("the cluster ended with %d\n%s", code, p.stderr)
	}
	if !strings.Contains(p.stderr.String(), "stopping all parts") {
		t.Errorf("it said\n%s", p.stderr)
	}
	wantNoProcess(t, dir)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
}
