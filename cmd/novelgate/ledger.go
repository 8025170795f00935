package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/ledger"
	"novelgate/internal/pgserver"
)

// LedgerCommand is `novelgate ledger …`.
type LedgerCommand struct {
	Status LedgerStatus `cmd:"" help:"Show how far the ledger has come, and its newest checkpoint."`
	NewKey LedgerNewKey `cmd:"" name:"new-key" help:"Add a new private key to a key file, which signs beside those in it, and print its public key."`

	NewMemory LedgerNewMemory `cmd:"" name:"new-memory" help:"Make a memory for the keys when the one that they signed through is lost. It signs new origins only."`
}

// LedgerStatus is `novelgate ledger status`.
type LedgerStatus struct {
	DatabaseFlags
	OutputFlags
}

// Run prints size, root, checkpoint and what is not sealed yet.
func (c *LedgerStatus) Run(in *invocation) error {
	return c.withPool(in, func(pool *pgxpool.Pool) error {
		status, err := ledger.ReadStatus(in.ctx, pool)
		if err != nil {
			return err
		}
		return c.print(in, status, func() { printLedger(in, status) })
	})
}

func printLedger(in *invocation, s ledger.Status) {
	unsealed, origin, memory, checkpoint, trouble := fmt.Sprint(s.UnsealedEvents), "-", "-", "-", "-"
	if s.UnsealedCapped {
		unsealed = "over " + unsealed
	}
	if s.Origin != nil {
		origin = *s.Origin
	}
	if s.Memory != nil {
		memory = *s.Memory
	}
	if s.CheckpointSize != nil && s.CheckpointAge != nil {
		checkpoint = fmt.Sprintf("%d entries, signed %.0f s ago", *s.CheckpointSize, *s.CheckpointAge)
	}
	if s.Error != nil {
		trouble = *s.Error
	}
	rows := [][]any{
		{"entries", s.Size},
		{"root", s.Root},
		{"unsealed events", unsealed},
		{"lag seconds", fmt.Sprintf("%.3f", s.LagSeconds)},
		{"origin", origin},
		{"signed through memory", memory},
		{"checkpoint", checkpoint},
	}
	for _, key := range s.VerifierKeys {
		rows = append(rows, []any{"verifier key", key})
	}
	in.table([]any{"LEDGER", ""}, append(rows, []any{"trouble", trouble}))
}

// LedgerNewKey is `novelgate ledger new-key`.
type LedgerNewKey struct {
	DatabaseFlags
	OutputFlags
	LedgerKey    string `name:"ledger-key" env:"NOVELGATE_LEDGER_KEY" placeholder:"FILE" help:"File of the private keys (default: ledger.key in the data directory). It is created if there is none, and a memory with it."`
	LedgerMemory string `name:"ledger-memory" env:"NOVELGATE_LEDGER_MEMORY" placeholder:"DIR" help:"Memory that the keys of a new file sign through (default: beside the keys, FILE.memory)."`
}

// Validate refuses a path that leads nowhere: a mistyped one must not become a place. Only the data directory is made
// when it is missing. kong calls it.
func (c *LedgerNewKey) Validate() error {
	return errors.Join(haveParent("--ledger-key", c.LedgerKey), haveParent("--ledger-memory", c.LedgerMemory))
}

// haveParent refuses a path whose directory is not there.
func haveParent(flag, path string) error {
	if dir := filepath.Dir(path); path != "" {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: there is no directory %s", flag, dir)
		}
	}
	return nil
}

// Run adds a key for the origin in use.
func (c *LedgerNewKey) Run(in *invocation) error {
	return c.withPool(in, func(pool *pgxpool.Pool) error {
		status, err := ledger.ReadStatus(in.ctx, pool)
		if err != nil {
			return err
		}
		if status.Origin == nil {
			return errors.New("the ledger has no origin yet: start `novelgate serve` first")
		}
		file := ledgerKeyFile(c.LedgerKey, c.DataDir)
		key, err := ledger.AddKey(file, ledgerMemory(c.LedgerMemory, file), *status.Origin)
		if err != nil {
			return err
		}
		added := struct {
			File        string `json:"file"`
			VerifierKey string `json:"verifierKey"`
		}{file, key}
		return c.print(in, added, func() {
			fmt.Fprintln(in.stdout, key)
			fmt.Fprintln(in.stderr, "The private key is in", file+". Replicas sign with it from their next start on.")
		})
	})
}

// LedgerNewMemory is `novelgate ledger new-memory`.
type LedgerNewMemory struct {
	DataDir      string `env:"NOVELGATE_DATA_DIR" placeholder:"DIR" help:"Data directory, where the keys are (default: ${data_dir})."`
	LedgerKey    string `name:"ledger-key" env:"NOVELGATE_LEDGER_KEY" placeholder:"FILE" help:"File of the private keys, which gets a line that names the memory (default: ledger.key in the data directory)."`
	LedgerMemory string `name:"ledger-memory" env:"NOVELGATE_LEDGER_MEMORY" placeholder:"DIR" help:"Directory of the new memory (default: beside the keys, FILE.memory)."`
}

// Validate refuses a path that leads nowhere. kong calls it.
func (c *LedgerNewMemory) Validate() error { return haveParent("--ledger-memory", c.LedgerMemory) }

// Run makes the memory.
func (c *LedgerNewMemory) Run(in *invocation) error {
	file := ledgerKeyFile(c.LedgerKey, c.DataDir)
	memory := ledgerMemory(c.LedgerMemory, file)
	if err := ledger.NewMemory(file, memory); err != nil {
		return err
	}
	fmt.Fprintln(in.stdout, memory)
	fmt.Fprintln(in.stderr,
		"Start `novelgate serve` with --ledger-origin and a name that was never used: what was signed through the lost "+
			"memory is not signed on.")
	return nil
}

// LedgerFlags say how serve signs and publishes checkpoints.
type LedgerFlags struct {
	Key           string   `name:"ledger-key" env:"NOVELGATE_LEDGER_KEY" placeholder:"FILE" help:"Private keys that sign checkpoints of the ledger, the same for all replicas (default: ledger.key in the data directory, made at the first start)."`
	Memory        string   `name:"ledger-memory" env:"NOVELGATE_LEDGER_MEMORY" placeholder:"DIR" help:"Directory that keeps what was signed, outside of the database (default: beside the keys, ledger.key.memory). Replicas may share one; a copy of one must not sign."`
	Origin        string   `name:"ledger-origin" env:"NOVELGATE_LEDGER_ORIGIN" placeholder:"NAME" help:"Name under which the ledger is signed (default: the one in use; at first the public URL without scheme, /ledger/ and 8 digits of the log's id). Another one starts a new origin."`
	PublishDir    string   `name:"ledger-publish-dir" env:"NOVELGATE_LEDGER_PUBLISH_DIR" type:"existingdir" placeholder:"DIR" help:"Directory that gets a copy of every checkpoint, and has none of another origin or history."`
	PublishURL    *url.URL `name:"ledger-publish-url" env:"NOVELGATE_LEDGER_PUBLISH_URL" placeholder:"URL" help:"HTTP endpoint that every checkpoint is sent to. Redirects are not followed."`
	PublishMethod string   `name:"ledger-publish-method" env:"NOVELGATE_LEDGER_PUBLISH_METHOD" enum:"POST,PUT" default:"POST" help:"POST or PUT."`
	Pause         bool     `name:"pause-ledger" env:"NOVELGATE_PAUSE_LEDGER" help:"Do not seal, sign or publish in this process."`
}

// ledgerKeyFile is where the private keys are.
func ledgerKeyFile(flag, dataDir string) string {
	if flag != "" {
		return flag
	}
	return filepath.Join(cmp.Or(dataDir, pgserver.DefaultDataDir()), "ledger.key")
}

// ledgerMemory is where the memory is that goes with a key file.
func ledgerMemory(flag, keyFile string) string {
	return cmp.Or(flag, ledger.DefaultMemory(keyFile))
}

// validate refuses what makes no sense before anything has started.
func (f *LedgerFlags) validate() error {
	if u := f.PublishURL; u != nil && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		return fmt.Errorf("--ledger-publish-url: %q is not an http or https address", u.Redacted())
	}
	if f.Key != "" {
		// A key is only ever made in the default place: a wrong path must not become a new identity.
		if _, err := os.Stat(f.Key); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("--ledger-key: %s does not exist; `novelgate ledger new-key` makes one", f.Key)
		}
	}
	return haveParent("--ledger-memory", f.Memory)
}

// defaultOrigin is the address of the ledger without its scheme, as C2SP tlog-tiles recommends. An id of the log
// comes behind it.
func defaultOrigin(public *url.URL) string { return public.Host + public.Path + "/ledger" }
