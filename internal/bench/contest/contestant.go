package contest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/bench/crud"
)

// Database is where a contestant keeps its comments, with one integration.
type Database struct {
	URL           string
	IntegrationID uuid.UUID
	APIKey        string
}

// Contestant is a running endpoint.
type Contestant struct {
	Name   string
	URL    string
	OpsURL string // where the service serves profiles; "" for others

	process  *process
	apiKey   string
	path     string // what readers ask for; "" for a contestant that takes comments in
	database *pgx.Conn
	// caughtUpSQL returns whether nothing is left to do after the answers; "" when there never is.
	caughtUpSQL string
	storedSQL   string // returns how many comments are stored
	audit       audit
}

const unlimited = "100000000" // per minute

// NewService makes a database for a novelgate, and an integration in it.
func (a *Arena) NewService(ctx context.Context, name, binary string) (d Database, err error) {
	if d.URL, err = a.CreateDatabase(ctx, name); err != nil {
		return d, err
	}
	if binary == "" {
		binary = a.config.Binary
	}
	if _, err := command(ctx, binary, "migrate", "--database-url", d.URL, "--json").Output(); err != nil {
		return d, fmt.Errorf("novelgate migrate: %w", err)
	}
	out, err := command(ctx, binary, "integration", "create", "bench", "--database-url", d.URL, "--json",
		"--posts-per-minute", unlimited, "--novels-per-minute", unlimited,
		"--capability", "novels", "--capability", "posts").Output()
	if err != nil {
		return d, fmt.Errorf("novelgate integration create: %w", err)
	}
	if err := json.Unmarshal(out, &d); err != nil {
		return d, fmt.Errorf("decode what integration create says: %w", err)
	}
	return d, nil
}

const caughtUpSQL = `SELECT NOT EXISTS (
    SELECT FROM projections p
    WHERE (p.transaction_id, p.position) < (SELECT e.transaction_id, e.position FROM events e
        ORDER BY e.transaction_id DESC, e.position DESC LIMIT 1)
)`

// StartService runs a novelgate on its database, with further flags of `novelgate serve`. When paused, its
// asynchronous projections do not run. Binary "" is the one of the arena.
func (a *Arena) StartService(
	ctx context.Context, d Database, binary string, paused bool, flags ...string,
) (*Contestant, error) {
	c := &Contestant{
		Name: "novelgate", apiKey: d.APIKey, caughtUpSQL: caughtUpSQL,
		storedSQL: `SELECT count(*) FROM events WHERE event_type = 'post.imported.v1'`,
	}
	if binary == "" {
		binary = a.config.Binary
	}
	args := append([]string{
		"serve", "--database-url", d.URL, "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0",
		"--log-level", "warn", "--data-dir", a.dir,
	}, flags...)
	if paused {
		args = append(args, "--pause-projections")
		c.caughtUpSQL = ""
	}
	err := c.start(ctx, binary, args, "Novelgate is listening on ", "Operations (metrics, health, pprof) on ")
	if err == nil {
		err = a.meet(ctx, c, d.URL)
	}
	return c, c.stopAfter(ctx, err)
}

// NewPeer makes a database for a CRUD peer.
func (a *Arena) NewPeer(ctx context.Context, name string) (d Database, err error) {
	if d.URL, err = a.CreateDatabase(ctx, name); err != nil {
		return d, err
	}
	d.IntegrationID, d.APIKey = uuid.New(), uuid.NewString()
	return d, crud.CreateTables(ctx, d.URL)
}

// PeerReady is what the process of a peer says before its address.
const PeerReady = "The peer is listening on "

// StartPeer runs the CRUD peer with a pool of so many connections.
func (a *Arena) StartPeer(ctx context.Context, d Database, pool int) (*Contestant, error) {
	c := &Contestant{
		Name: "CRUD, pool of " + strconv.Itoa(pool), apiKey: d.APIKey, storedSQL: `SELECT count(*) FROM posts`,
	}
	err := c.start(ctx, a.self, []string{
		"peer", "--database-url", d.URL, "--key", d.APIKey, "--integration", d.IntegrationID.String(),
		"--pool", strconv.Itoa(pool),
	}, PeerReady)
	if err == nil {
		err = a.meet(ctx, c, d.URL)
	}
	return c, c.stopAfter(ctx, err)
}

// StartReadPeer runs a handler on the database of a service that prints the first page of a discussion, by the slug of
// its novel.
func (a *Arena) StartReadPeer(ctx context.Context, d Database, slug string) (*Contestant, error) {
	c := &Contestant{Name: "the statement, printed", path: "/"}
	err := c.start(ctx, a.self, []string{"read-peer", "--database-url", d.URL, "--slug", slug}, PeerReady)
	return c, c.stopAfter(ctx, err)
}

// Reading is the contestant as readers of a path see it. It stops with the one that it is made of.
func (c *Contestant) Reading(name, path string) *Contestant {
	return &Contestant{Name: name, URL: c.URL, OpsURL: c.OpsURL, process: c.process, path: path}
}

// start runs the process until it has said where it listens, and where its operations are if it says that.
func (c *Contestant) start(ctx context.Context, program string, args []string, says ...string) (err error) {
	if c.process, err = launch(ctx, program, args...); err != nil {
		return err
	}
	for i, to := range []*string{&c.URL, &c.OpsURL}[:len(says)] {
		if *to, err = c.process.await(says[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Contestant) stopAfter(ctx context.Context, err error) error {
	if err != nil && c.process != nil {
		err = errors.Join(fmt.Errorf("start %s: %w", c.Name, err), c.Stop(context.WithoutCancel(ctx)))
	}
	return err
}

// meet connects to the database of a contestant and prepares the novels.
func (a *Arena) meet(ctx context.Context, c *Contestant, databaseURL string) error {
	var err error
	if c.database, err = pgx.Connect(ctx, databaseURL); err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	return prepare(ctx, a.load(c))
}

// load is the configuration of a load without what is different in each.
func (a *Arena) load(c *Contestant) loadConfig {
	return loadConfig{
		Host: strings.TrimPrefix(c.URL, "http://"), APIKey: c.apiKey, Path: c.path,
		Titles: a.config.Titles, Replies: a.config.Replies,
	}
}

// Stop ends the process, not its database.
func (c *Contestant) Stop(ctx context.Context) error {
	if c.database != nil {
		_ = c.database.Close(ctx) // of no more use
	}
	if err := c.process.stop(); err != nil {
		return fmt.Errorf("stop %s: %w", c.Name, err)
	}
	return nil
}

// Settle returns when the contestant has finished what it does after its answers, and how long that took: 0 for one
// that does nothing.
func (c *Contestant) Settle(ctx context.Context) (time.Duration, error) {
	const pause = 10 * time.Millisecond
	if c.caughtUpSQL == "" {
		return 0, nil
	}
	for start := time.Now(); ; time.Sleep(pause) {
		var done bool
		if err := c.database.QueryRow(ctx, c.caughtUpSQL).Scan(&done); err != nil {
			return 0, fmt.Errorf("look whether %s has caught up: %w", c.Name, err)
		}
		if done {
			return time.Since(start), nil
		}
	}
}

// ErrLost is returned when a contestant has acknowledged comments that it has not stored, or stored more than it was
// sent.
var ErrLost = errors.New("acknowledged and stored comments differ")

// audit counts what a contestant was asked for since its first round.
type audit struct {
	before   int // comments stored before the first round, and one
	accepted int
	failed   int // answers that do not say whether the comment was stored
}

// Audit fails with ErrLost unless the comments that were accepted in all rounds are stored, and no others.
func (c *Contestant) Audit(ctx context.Context) error {
	now, err := c.stored(ctx)
	if err != nil {
		return err
	}
	if got := now + 1 - c.audit.before; got < c.audit.accepted || got > c.audit.accepted+c.audit.failed {
		return fmt.Errorf("%w: %s accepted %d and stored %d", ErrLost, c.Name, c.audit.accepted, got)
	}
	return nil
}

// stored counts the comments; a contestant for readers has none.
func (c *Contestant) stored(ctx context.Context) (n int, err error) {
	if c.database == nil {
		return 0, nil
	}
	if err := c.database.QueryRow(ctx, c.storedSQL).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the comments of %s: %w", c.Name, err)
	}
	return n, nil
}

// process is one that says what is going on, line by line, on its standard output.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
}

func launch(ctx context.Context, program string, args ...string) (*process, error) {
	cmd := command(ctx, program, args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("open standard input: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("open standard output: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s %s: %w", program, args[0], err)
	}
	return &process{cmd: cmd, stdin: stdin, lines: bufio.NewScanner(stdout)}, nil
}

func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // our own programs
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Stderr = os.Stderr
	return cmd
}

var errSilent = errors.New("the process ended without saying")

// await reads lines until one begins with prefix, and returns the rest of it.
func (p *process) await(prefix string) (string, error) {
	for p.lines.Scan() {
		if rest, ok := strings.CutPrefix(p.lines.Text(), prefix); ok {
			return strings.TrimSpace(rest), nil
		}
	}
	return "", errors.Join(fmt.Errorf("%w %q", errSilent, prefix), p.lines.Err())
}

func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // the only error is that it has ended
	return p.wait()
}

// wait drains what the process still says and returns when it has ended.
func (p *process) wait() error {
	for p.lines.Scan() {
		continue
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", p.cmd.Path, err)
	}
	return nil
}
