package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/child"
	"novelgate/internal/pgserver"
)

// neighbours are processes that use a service. They run at a low priority, because they usually run on other machines.
type neighbours struct {
	service   *contestant
	priority  []string // the command that lowers it: niced or idle
	processes []*child.Reporter
}

var (
	niced = []string{"nice", "-n", "19"} // gets some time when all processors are busy
	idle  = []string{"chrt", "--idle", "0"}
)

// stop ends all of them, the last one first.
func (n *neighbours) stop() (err error) {
	for _, p := range slices.Backward(n.processes) {
		err = errors.Join(err, p.Stop())
	}
	n.processes = nil
	return err
}

// launch starts a program, and returns the rest of the line that begins with ready.
func (n *neighbours) launch(
	ctx context.Context, ready string, env []string, args ...string,
) (*child.Reporter, string, error) {
	args = slices.Concat(n.priority, args)
	command := child.Command(ctx, args[0], args[1:]...)
	command.Env = append(os.Environ(), env...)
	process, err := child.Launch(command)
	if err != nil {
		return nil, "", err
	}
	n.processes = append(n.processes, process)
	rest, err := process.Await(ready)
	return process, rest, err
}

// mirror is a running mirror of a service, with a database server of its own.
type mirror struct {
	process *child.Reporter
	server  *pgserver.Server
	conn    *pgx.Conn
}

// startMirror starts a mirror of the service, with an empty database in a directory of that name.
func (n *neighbours) startMirror(ctx context.Context, name string) (*mirror, error) {
	var auditor struct{ APIKey string }
	if err := n.administer(ctx, &auditor, "auditor", "create", name); err != nil {
		return nil, err
	}
	var ledger struct{ VerifierKeys []string }
	if err := n.administer(ctx, &ledger, "ledger", "status"); err != nil {
		return nil, err
	}
	dir := filepath.Join(n.service.dir, name)
	key := dir + ".pub"
	if err := os.WriteFile(key, []byte(strings.Join(ledger.VerifierKeys, "\n")), 0o600); err != nil {
		return nil, fmt.Errorf("save the key of the ledger: %w", err)
	}
	env := []string{"NOVELGATE_AUDITOR_KEY=" + auditor.APIKey}
	process, _, err := n.launch(ctx, opsReady, env, n.service.Binary, "serve", "--mirror", n.service.url,
		"--origin-key", key, "--data-dir", dir, "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0",
		"--log-level", "warn")
	if err != nil {
		return nil, err
	}
	m := &mirror{process: process}
	if m.server, err = pgserver.Start(ctx, pgserver.Config{DataDir: dir}); err != nil { // joins that of the mirror
		return nil, fmt.Errorf("find the database of the mirror: %w", err)
	}
	if m.conn, err = pgx.Connect(ctx, m.server.URL()); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to the database of the mirror: %w", err), m.stop(ctx))
	}
	return m, nil
}

// stop releases the database of the mirror.
func (m *mirror) stop(ctx context.Context) (err error) {
	ctx = context.WithoutCancel(ctx)
	if m.conn != nil {
		err = m.conn.Close(ctx)
	}
	return errors.Join(err, m.server.Stop(ctx))
}

// visibleSQL returns the recording time of the last event that the projection posts has applied.
const visibleSQL = `SELECT e.recorded_at FROM projections AS p
JOIN events AS e ON (e.transaction_id, e.position) = (p.transaction_id, p.position) WHERE p.name = 'posts'`

// awaitMirror waits until the mirror and the service have projected the same last event.
func (n *neighbours) awaitMirror(ctx context.Context, m *mirror) error {
	for {
		var theirs, ours *time.Time
		err := m.conn.QueryRow(ctx, visibleSQL).Scan(&theirs)
		if err == nil || errors.Is(err, pgx.ErrNoRows) {
			err = n.service.conn.QueryRow(ctx, visibleSQL).Scan(&ours)
		}
		if err != nil {
			return fmt.Errorf("wait for the mirror: %w", err)
		}
		if theirs != nil && theirs.Equal(*ours) {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// administer runs a command of novelgate on the database of the service and decodes its output.
func (n *neighbours) administer(ctx context.Context, into any, args ...string) error {
	args = append(args, "--database-url", n.service.databaseURL, "--json")
	out, err := child.Command(ctx, n.service.Binary, args...).Output()
	if err == nil {
		err = json.Unmarshal(out, into)
	}
	if err != nil {
		return fmt.Errorf("novelgate %s: %w", args[0], err)
	}
	return nil
}
