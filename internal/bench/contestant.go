package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/child"
)

// opsReady precedes the address for operations in the output of a service.
const opsReady = "Operations (metrics, health, pprof) on "

// contestant is a process that is measured. It runs between start and stop; its database lives as long as the testbed.
type contestant struct {
	*testbed
	name        string
	command     []string // program and arguments
	databaseURL string
	integration uuid.UUID
	apiKey      string
	path        string // that readers request; "" for a contestant that ingests comments
	storedSQL   string // query of the number of stored comments; "" for a contestant that ingests none
	fill        func(ctx context.Context, n int) error
	accepted    int // comments that must be stored
	unknown     int // comments that may be stored, because the answer was lost or an error

	// While it runs:
	process     *child.Reporter
	url, opsURL string // opsURL serves profiles; "" for peers
	projecting  bool   // asynchronous projections run
	conn        *pgx.Conn
}

// newService creates a database with an integration for a novelgate that will run with the flags.
func (t *testbed) newService(ctx context.Context, name, binary string, flags []string) (*contestant, error) {
	const unlimited = "100000000" // per minute
	url, err := t.createDatabase(ctx, "bench_"+strings.ReplaceAll(name, " ", "_"))
	if err != nil {
		return nil, err
	}
	if _, err := child.Command(ctx, binary, "migrate", "--database-url", url, "--json").Output(); err != nil {
		return nil, fmt.Errorf("novelgate migrate: %w", err)
	}
	out, err := child.Command(ctx, binary, "integration", "create", "bench", "--database-url", url, "--json",
		"--posts-per-minute", unlimited, "--novels-per-minute", unlimited,
		"--lines-per-minute", unlimited, "--capability", "novels", "--capability", "posts", "--capability", "import").Output()
	if err != nil {
		return nil, fmt.Errorf("novelgate integration create: %w", err)
	}
	var made struct {
		IntegrationID uuid.UUID
		APIKey        string
	}
	if err := json.Unmarshal(out, &made); err != nil {
		return nil, fmt.Errorf("decode the integration: %w", err)
	}
	c := &contestant{
		testbed: t, name: name, databaseURL: url, integration: made.IntegrationID, apiKey: made.APIKey,
		storedSQL: `SELECT count(*) FROM events WHERE event_type = 'post.imported.v1'`,
		command: append([]string{
			binary, "serve", "--database-url", url, "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0",
			"--log-level", "warn", "--data-dir", t.dir,
		}, flags...),
	}
	c.fill = func(ctx context.Context, n int) error { return c.fillLog(ctx, t.Titles, n) }
	return c, nil
}

// newPeer creates a database for a CRUD peer with a pool of connections.
func (t *testbed) newPeer(ctx context.Context, pool int) (*contestant, error) {
	url, err := t.createDatabase(ctx, "bench_peer")
	if err != nil {
		return nil, err
	}
	c := &contestant{
		testbed: t, name: "CRUD, pool of " + strconv.Itoa(pool), databaseURL: url, integration: uuid.New(),
		apiKey: uuid.NewString(), storedSQL: `SELECT count(*) FROM posts`,
	}
	c.command = []string{
		t.self, "peer", "--database-url", url, "--key", c.apiKey, "--integration", c.integration.String(),
		"--pool", strconv.Itoa(pool),
	}
	c.fill = c.fillPeer
	return c, createPeerTables(ctx, url)
}

// reader returns a contestant for requests of a path to the same process.
func (c *contestant) reader(name, path string) *contestant {
	return &contestant{testbed: c.testbed, name: name, url: c.url, opsURL: c.opsURL, process: c.process, path: path}
}

// whileRunning starts the contestant, calls use, and stops it.
func (c *contestant) whileRunning(ctx context.Context, paused bool, use func() error) (err error) {
	if err := c.start(ctx, paused); err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", c.name, err), c.stop(ctx))
	}
	defer func() { err = errors.Join(err, c.stop(ctx)) }()
	return use()
}

// start starts the process, waits until it listens, and prepares the novels. A paused service does not run its
// asynchronous projections.
func (c *contestant) start(ctx context.Context, paused bool) (err error) {
	isService := c.command[0] != c.self
	args, ready := slices.Clone(c.command[1:]), peerReady
	if isService {
		ready = "Novelgate is listening on "
		c.projecting = !paused
		if paused {
			args = append(args, "--pause-projections")
		}
	}
	if c.process, err = child.Launch(child.Command(ctx, c.command[0], args...)); err != nil {
		return err
	}
	if c.url, err = c.process.Await(ready); err != nil {
		return err
	}
	if isService {
		if c.opsURL, err = c.process.Await(opsReady); err != nil {
			return err
		}
	}
	if c.storedSQL == "" {
		return nil // it ingests no comments
	}
	if c.conn, err = pgx.Connect(ctx, c.databaseURL); err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	if err := prepare(ctx, c.withTarget(loadConfig{})); err != nil {
		return err
	}
	c.accepted = max(c.accepted, c.Titles)
	return nil
}

// stop ends the process.
func (c *contestant) stop(ctx context.Context) error {
	if c.conn != nil {
		_ = c.conn.Close(context.WithoutCancel(ctx)) // an error does not matter any more
	}
	if c.process == nil {
		return nil
	}
	if err := c.process.Stop(); err != nil {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	return nil
}

// preload stores n comments as if they had been delivered earlier, and waits for the projections.
func (c *contestant) preload(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	begun := time.Now()
	if err := c.fill(ctx, n); err != nil {
		return err
	}
	if _, err := c.awaitProjections(ctx); err != nil {
		return err
	}
	fmt.Printf("%s: %d comments stored and projected in %v\n", c.name, n, time.Since(begun).Round(time.Second))
	return c.checkpoint(ctx)
}

// caughtUpSQL reads a view that every version has.
const caughtUpSQL = `SELECT count(*) > 0 AND coalesce(max(lag_events), 0) = 0 FROM analytics.freshness`

// awaitProjections waits until the projections have caught up, and returns how long that took.
func (c *contestant) awaitProjections(ctx context.Context) (time.Duration, error) {
	if !c.projecting {
		return 0, nil
	}
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		var done bool
		if err := c.conn.QueryRow(ctx, caughtUpSQL).Scan(&done); err != nil {
			return 0, fmt.Errorf("read the checkpoints of %s: %w", c.name, err)
		}
		if done {
			return time.Since(start), nil
		}
	}
}

// checkStored fails unless the database has all accepted comments, and no others except unknown ones.
func (c *contestant) checkStored(ctx context.Context) error {
	var stored int
	if err := c.conn.QueryRow(ctx, c.storedSQL).Scan(&stored); err != nil {
		return fmt.Errorf("count the comments of %s: %w", c.name, err)
	}
	if stored < c.accepted || stored > c.accepted+c.unknown {
		return fmt.Errorf("%s accepted %d comments and stored %d", c.name, c.accepted, stored)
	}
	return nil
}
