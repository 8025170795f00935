package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
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

	Projections bool `default:"true" negatable:"" help:"With the database: replay the events and compare all projected tables with that. It needs permission to create schemas, and room for a copy of the largest projection."`
}

var errDoesNotVerify = errors.New("the history does not verify")

// Run verifies and reports. What is wrong with the history is an error: the exit code is 1.
func (c *EventsVerify) Run(in *invocation) error {
	config := verify.Config{Workers: auditWorkers(), Now: in.now}
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
	return c.withHistory(in, "verify", map[string]string{}, func(pool *pgxpool.Pool) (int64, error) {
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
	return verification{Report: report, Projections: []rebuild.Comparison{}}, err
}

func (c *EventsVerify) report(in *invocation, result verification) error {
	if !result.KeysGiven {
		fmt.Fprintln(in.stderr, "The key came with the history: it is the operator's own word. Give the key that you hold with --key.")
	}
	if err := c.print(in, result, func() { printReport(in, result) }); err != nil {
		return err
	}
	if !result.OK {
		return fmt.Errorf("%w: %s", errDoesNotVerify, printable(result.Faults[0].String()))
	}
	return nil
}

func printReport(in *invocation, r verification) {
	checked := fmt.Sprintf("%d events against their entries", r.Events)
	switch {
	case r.EntriesOnly:
		checked = "no events, there are entries only"
	case r.Erased > 0:
		checked += fmt.Sprintf(", %d of them erased", r.Erased)
	}
	rows := [][]any{
		{"checkpoint", fmt.Sprintf("%d entries of %s", r.Size, r.Origin)},
		{"root", r.Root},
	}
	for _, key := range r.Keys {
		rows = append(rows, []any{"signed by", key})
	}
	rows = append(rows,
		[]any{"hashed", fmt.Sprintf("%d entries, from log index %d on", r.Entries, r.FirstLogIndex)},
		[]any{"compared", checked},
		[]any{"streams", fmt.Sprintf("%d, their versions without gaps unless said below", r.Streams)})
	for _, kept := range r.Kept {
		outcome := "could NOT be compared"
		if kept.Agrees != nil {
			outcome = "does NOT agree"
			if *kept.Agrees {
				outcome = "agrees"
			}
		}
		rows = append(rows, []any{"kept", fmt.Sprintf("%s, %d entries: %s", kept.Name, kept.Size, outcome)})
	}
	rows = append(rows, []any{"took", fmt.Sprintf("%.1f s, %.0f events/s", r.Seconds, float64(r.Entries)/max(r.Seconds, 0.001))})
	for i := range r.Projections {
		rows = append(rows, []any{"replayed", replayed(&r.Projections[i])})
	}
	for i := range r.Faults {
		rows = append(rows, []any{"WRONG", r.Faults[i].String()})
	}
	if more := r.FaultCount - int64(len(r.Faults)); more > 0 {
		rows = append(rows, []any{"WRONG", fmt.Sprintf("%d faults in all", r.FaultCount)})
	}
	outcome := "everything agrees"
	if !r.OK {
		outcome = "the history DOES NOT VERIFY"
	}
	in.table([]any{"VERIFY", outcome}, rows)
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
