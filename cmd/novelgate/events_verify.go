package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/ledger/bundle"
	"novelgate/events/ledger/verify"
	"novelgate/projections/rebuild"
)

// EventsVerify is `novelgate events verify`.
type EventsVerify struct {
	DatabaseFlags
	OutputFlags
	Dirs     []string `arg:"" optional:"" name:"dir" type:"existingdir" help:"Bundle to verify, without any database; then those that continue it, in order. Without DIR and --url, the database is verified."`
	URL      *url.URL `name:"url" placeholder:"URL" help:"Verify the entries that a running service shows: its public URL."`
	Database bool     `help:"Verify the events in the database, which is the default."`
	Key      []string `placeholder:"KEY" help:"Public key that must have signed, as ledger status shows it, or a file of such keys (default: what comes with the history, which proves less)."`
	Against  []string `placeholder:"PATH" type:"existingpath" help:"Checkpoint that you kept, or an older bundle: the history must be the one that it covers. One that ends in front of the first event of DIR cannot be compared, which is a fault."`

	FirstLogIndex int64 `placeholder:"INDEX" help:"Log index with which DIR begins, when it is a bundle that continues others: what is in front of it is not verified, and must have been before (default: 0, everything)."`

	Projections bool `default:"true" negatable:"" help:"With the database: replay the events and compare all projected tables with that. It needs permission to create schemas, and room for a copy of the largest projection."`
}

var errDoesNotVerify = errors.New("the history does not verify")

// Run verifies and reports. What is wrong with the history is an error: the exit code is 1.
func (c *EventsVerify) Run(in *invocation) error {
	config := verify.Config{First: c.FirstLogIndex, Workers: auditWorkers(), Now: in.now}
	if isTerminal(in.stderr) {
		config.Progress = in.progress("verify", "events")
	}
	var err error
	if config.Keys, err = c.keys(); err != nil {
		return err
	}
	if err := c.against(&config); err != nil {
		return err
	}
	switch {
	case len(c.Dirs) > 0 && c.URL != nil || c.Database && (len(c.Dirs) > 0 || c.URL != nil):
		return errors.New("verify either directories, or --url, or --database")
	case len(c.Dirs) > 0:
		if config.Source, err = verify.OpenBundles(c.Dirs); err != nil {
			return err
		}
		return c.run(in, config)
	case c.URL != nil:
		prefix := strings.TrimSuffix(c.URL.String(), "/")
		if !strings.HasSuffix(prefix, "/ledger") {
			prefix += "/ledger"
		}
		const patience = 30 * time.Second // for one request
		config.Source = &verify.Service{Client: &http.Client{Timeout: patience}, URL: prefix}
		return c.run(in, config)
	}
	return c.withHistory(in, "verify", c.parameters(), func(pool *pgxpool.Pool) (int64, error) {
		config.Source = verify.NewDatabase(pool)
		result, err := c.verify(in, config)
		if err == nil && c.Projections {
			err = result.compareProjections(in, pool)
		}
		if err != nil {
			return 0, err
		}
		return 0, c.report(in, result) // it shows no event
	})
}

// parameters are the flags as the access log keeps them.
func (c *EventsVerify) parameters() map[string]string {
	parameters := map[string]string{"projections": strconv.FormatBool(c.Projections)}
	for name, values := range map[string][]string{"key": c.Key, "against": c.Against} {
		if len(values) > 0 {
			parameters[name] = strings.Join(values, ",")
		}
	}
	return parameters
}

// verification is what was found: of the history, and of what was made of it.
type verification struct {
	*verify.Report
	Projections []rebuild.Comparison `json:"projections"` // of a database; empty where they were not compared
}

func (c *EventsVerify) run(in *invocation, config verify.Config) error {
	result, err := c.verify(in, config)
	if err != nil {
		return err
	}
	return c.report(in, result)
}

func (c *EventsVerify) verify(in *invocation, config verify.Config) (verification, error) {
	report, err := verify.Run(in.ctx, config)
	if errors.Is(err, verify.ErrFirst) {
		first := config.Source.First()
		advice := "leave --first-log-index out"
		if first > 0 {
			advice = fmt.Sprintf("give the bundles in front of it as well, or --first-log-index %d if you have verified what "+
				"is in front of it before", first)
		}
		err = fmt.Errorf("%w: %s", err, advice)
	}
	return verification{Report: report, Projections: []rebuild.Comparison{}}, err
}

func (c *EventsVerify) report(in *invocation, result verification) error {
	if !result.KeysGiven {
		fmt.Fprintln(in.stderr,
			"The key came with the history: it is the operator's own word. Give the key that you hold with --key.")
	}
	if err := c.print(in, result, func() { printReport(in, result) }); err != nil {
		return err
	}
	if !result.OK {
		return fmt.Errorf("%w: %s", errDoesNotVerify, printable(result.Faults[0].String()))
	}
	return nil
}

// keys resolves --key: keys themselves, or files of keys.
func (c *EventsVerify) keys() ([]string, error) {
	var keys []string
	for _, key := range c.Key {
		text, err := os.ReadFile(key)
		switch {
		case err == nil:
			keys = append(keys, strings.Fields(string(text))...)
		case errors.Is(err, fs.ErrNotExist) && strings.Count(key, "+") >= 2:
			keys = append(keys, key)
		default:
			return nil, fmt.Errorf("--key: %w", err)
		}
	}
	if len(c.Key) > 0 && len(keys) == 0 {
		return nil, errors.New("--key: there is no key in the file")
	}
	return keys, nil
}

// against reads the checkpoints that were kept.
func (c *EventsVerify) against(config *verify.Config) error {
	config.Kept = map[string][]byte{}
	for _, path := range c.Against {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			older, err := verify.OpenBundles([]string{path})
			if err != nil {
				return fmt.Errorf("--against: %w", err)
			}
			if config.Kept[path], err = older[0].File(bundle.CheckpointFile); err != nil {
				return fmt.Errorf("--against: %w", err)
			}
			config.Older = older
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("--against: %w", err)
		}
		config.Kept[path] = text
	}
	return nil
}
