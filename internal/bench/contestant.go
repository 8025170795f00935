package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/system"
)

// contestant is a process that is measured. It runs between start and stop; its database lives as long as the testbed.
type contestant struct {
	*testbed
	name        string
	command     []string // program and arguments
	databaseURL string
	apiKey      string
	storedSQL   string // query of the number of stored comments
	accepted    int    // comments that must be stored
	unknown     int    // comments that may be stored, because the answer was lost or an error

	// While it runs:
	pid         int
	url, opsURL string // opsURL serves profiles; "" for the peer
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
	if _, err := command(ctx, binary, "migrate", "--database-url", url, "--json").Output(); err != nil {
		return nil, fmt.Errorf("novelgate migrate: %w", err)
	}
	out, err := command(ctx, binary, "integration", "create", "bench", "--database-url", url, "--json",
		"--posts-per-minute", unlimited, "--novels-per-minute", unlimited, "--capability", "novels", "--capability",
		"posts").Output()
	if err != nil {
		return nil, fmt.Errorf("novelgate integration create: %w", err)
	}
	var made struct{ APIKey string }
	if err := json.Unmarshal(out, &made); err != nil {
		return nil, fmt.Errorf("decode the integration: %w", err)
	}
	return &contestant{
		testbed: t, name: name, databaseURL: url, apiKey: made.APIKey,
		storedSQL: `SELECT count(*) FROM events WHERE event_type = 'post.imported.v1'`,
		command: append([]string{
			binary, "serve", "--database-url", url, "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0",
			"--log-level", "warn", "--data-dir", t.dir,
		}, flags...),
	}, nil
}

// newPeer creates a database for a CRUD peer with a pool of connections.
func (t *testbed) newPeer(ctx context.Context, pool int) (*contestant, error) {
	url, err := t.createDatabase(ctx, "bench_peer")
	if err != nil {
		return nil, err
	}
	key := uuid.NewString()
	return &contestant{
		testbed: t, name: "CRUD, pool of " + strconv.Itoa(pool), databaseURL: url, apiKey: key,
		storedSQL: `SELECT count(*) FROM posts`,
		command:   []string{t.self, "peer", "--database-url", url, "--key", key, "--pool", strconv.Itoa(pool)},
	}, createPeerTables(ctx, url)
}

// whileRunning starts the contestant, calls use, and stops it.
func (c *contestant) whileRunning(ctx context.Context, use func() error) (err error) {
	isService := c.command[0] != c.self
	cmd := command(ctx, c.command[0], c.command[1:]...)
	cmd.SysProcAttr = system.ChildAttributes(syscall.SIGTERM) // main is locked to the thread that starts it
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("open standard output: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it fails only if the process has ended
		_, copyErr := io.Copy(io.Discard, stdout)
		if stopped := errors.Join(copyErr, cmd.Wait()); stopped != nil {
			err = errors.Join(err, fmt.Errorf("stop %s: %w", c.name, stopped))
		}
	}()
	// Both print their address on the first line, and the service on the second one that for operators.
	lines := bufio.NewScanner(stdout)
	address := func() string {
		if !lines.Scan() {
			return ""
		}
		return lines.Text()[strings.LastIndexByte(lines.Text(), ' ')+1:]
	}
	c.pid, c.projecting, c.url = cmd.Process.Pid, isService, address()
	if isService {
		c.opsURL = address()
	}
	if c.url == "" {
		return fmt.Errorf("%s has not started", c.name)
	}
	if c.conn, err = pgx.Connect(ctx, c.databaseURL); err != nil {
		return fmt.Errorf("connect to the database of %s: %w", c.name, err)
	}
	defer func() { _ = c.conn.Close(context.WithoutCancel(ctx)) }()
	l, err := openLoad(ctx, c, 8)
	if err != nil {
		return err
	}
	err = l.prepare()
	l.close()
	if err != nil {
		return fmt.Errorf("prepare novels: %w", err)
	}
	c.accepted = max(c.accepted, titles)
	return use()
}

// round puts the contestant under load for a time, or until it has answered a number of requests (0: no limit), and
// measures all processes until the projections have caught up.
func (c *contestant) round(
	ctx context.Context, connections int, duration time.Duration, requests int,
) (f figures, err error) {
	c.rounds++
	defer func() {
		if err != nil {
			err = fmt.Errorf("measure %s: %w", c.name, err)
		}
	}()
	l, err := openLoad(ctx, c, connections)
	if err != nil {
		return f, err
	}
	defer l.close()
	before, err := c.cpuUsage(c.pid)
	if err != nil {
		return f, err
	}
	if f, err = l.run(duration, requests); err != nil {
		return f, err
	}
	if f.catchUp, err = c.awaitProjections(ctx); err != nil {
		return f, err
	}
	after, err := c.cpuUsage(c.pid)
	if err != nil {
		return f, err
	}
	if f.accepted == 0 {
		return f, fmt.Errorf("all requests failed: %v", f.failed)
	}
	c.accepted += f.accepted
	for _, n := range f.failed {
		c.unknown += n
	}
	n := time.Duration(f.accepted)
	service, database := after.service-before.service, after.database-before.database
	generator := after.generator - before.generator
	f.service, f.database, f.generator = service/n, database/n, generator/n
	noise := after.machine - before.machine - service - database - generator
	f.noise = max(0, noise.Seconds()/after.at.Sub(before.at).Seconds())
	return f, nil
}

// awaitProjections waits until the projections have caught up, and returns how long that took. It reads a view that
// every version has.
func (c *contestant) awaitProjections(ctx context.Context) (time.Duration, error) {
	const caughtUpSQL = `SELECT count(*) > 0 AND coalesce(max(lag_events), 0) = 0 FROM analytics.freshness`
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		done := !c.projecting
		if !done {
			if err := c.conn.QueryRow(ctx, caughtUpSQL).Scan(&done); err != nil {
				return 0, fmt.Errorf("read the checkpoints: %w", err)
			}
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
