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
	process     *child.Reporter
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
	if _, err := child.Command(ctx, binary, "migrate", "--database-url", url, "--json").Output(); err != nil {
		return nil, fmt.Errorf("novelgate migrate: %w", err)
	}
	out, err := child.Command(ctx, binary, "integration", "create", "bench", "--database-url", url, "--json",
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

// whileRunning starts the contestant, calls use, and stops it. A paused service does not run its asynchronous
// projections.
func (c *contestant) whileRunning(ctx context.Context, paused bool, use func() error) (err error) {
	args, ready, isService := slices.Clone(c.command[1:]), peerReady, c.command[0] != c.self
	if isService {
		ready = "Novelgate is listening on "
		c.projecting = !paused
		if paused {
			args = append(args, "--pause-projections")
		}
	}
	if c.process, err = child.Launch(child.Command(ctx, c.command[0], args...)); err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	defer func() {
		if stopped := c.process.Stop(); stopped != nil {
			err = errors.Join(err, fmt.Errorf("stop %s: %w", c.name, stopped))
		}
	}()
	if c.url, err = c.process.Await(ready); err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	if isService {
		if c.opsURL, err = c.process.Await("Operations (metrics, health, pprof) on "); err != nil {
			return fmt.Errorf("start %s: %w", c.name, err)
		}
	}
	if c.conn, err = pgx.Connect(ctx, c.databaseURL); err != nil {
		return fmt.Errorf("connect to the database of %s: %w", c.name, err)
	}
	defer func() { _ = c.conn.Close(context.WithoutCancel(ctx)) }()
	if err := prepare(ctx, c.withTarget(loadConfig{Connections: 8})); err != nil {
		return err
	}
	c.accepted = max(c.accepted, c.Titles)
	return use()
}

// withTarget adds the target and the comments to the configuration of a load.
func (c *contestant) withTarget(config loadConfig) loadConfig {
	config.Host, config.APIKey = strings.TrimPrefix(c.url, "http://"), c.apiKey
	config.Titles, config.Replies, config.Round = c.Titles, c.Replies, c.rounds
	return config
}

// round runs the load generator and measures all processes until the projections have caught up.
func (c *contestant) round(ctx context.Context, config loadConfig) (f figures, err error) {
	c.rounds++
	defer func() {
		if err != nil {
			err = fmt.Errorf("measure %s: %w", c.name, err)
		}
	}()
	encoded, err := json.Marshal(c.withTarget(config)) //nolint:gosec // the key is for this run
	if err != nil {
		return f, fmt.Errorf("encode the load: %w", err)
	}
	generator, err := child.Launch(child.Command(ctx, c.self, "load", string(encoded)))
	if err != nil {
		return f, err
	}
	ended := false
	defer func() {
		if !ended {
			err = errors.Join(err, generator.Stop())
		}
	}()
	if _, err := generator.Await(loadReady); err != nil {
		return f, err
	}
	before, err := c.cpuUsage(c.process.PID())
	if err != nil {
		return f, err
	}
	if err := generator.Stdin.Close(); err != nil {
		return f, fmt.Errorf("start the load: %w", err)
	}
	line, err := generator.Await(loadResult)
	if err != nil {
		return f, err
	}
	catchUp, err := c.awaitProjections(ctx)
	if err != nil {
		return f, err
	}
	after, err := c.cpuUsage(c.process.PID())
	if err != nil {
		return f, err
	}
	ended = true
	if err := generator.Wait(); err != nil {
		return f, err
	}
	var o loadOutcome
	if err := json.Unmarshal([]byte(line), &o); err != nil {
		return f, fmt.Errorf("decode the outcome of the load: %w", err)
	}
	if o.Accepted == 0 {
		return f, fmt.Errorf("all requests failed: %v", o.Failed)
	}
	c.accepted += o.Accepted
	for _, n := range o.Failed {
		c.unknown += n
	}
	n := time.Duration(o.Accepted)
	service, database := after.service-before.service, after.database-before.database
	noise := after.machine - before.machine - service - database - generator.ProcessorTime()
	return figures{
		accepted: o.Accepted, perSecond: float64(o.Accepted) / o.Elapsed.Seconds(), p50: o.P50, p99: o.P99,
		service: service / n, database: database / n, generator: generator.ProcessorTime() / n, catchUp: catchUp,
		noise: max(0, noise.Seconds()/after.at.Sub(before.at).Seconds()), failed: o.Failed,
	}, nil
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
