package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/eventlog"
	"novelgate/events/ledger"
	"novelgate/internal/pgserver"
)

type ledgerCommand struct {
	Status     CommonFlags      `cmd:"" help:"Show the size of the ledger, and its newest checkpoint."`
	CheckProof ledgerCheckProof `cmd:"" help:"Check a proof of one event (/ledger/proof), without a network."`
	NewKey     ledgerNewKey     `cmd:"" help:"Add a private key to the signer directory and print its public key."`
}

type ledgerNewKey struct {
	CommonFlags
	Ledger SignerFlags `embed:"" prefix:"ledger-" envprefix:"NOVELGATE_LEDGER_"`
}

type ledgerCheckProof struct {
	OutputFlags
	File string   `arg:"" type:"existingfile" help:"File with the proof (C2SP tlog-proof)."`
	Key  []string `required:"" placeholder:"KEY" help:"Public key, or a file of keys: one of them must have signed."`
}

func (c *ledgerCheckProof) run(_ context.Context, env *environment) error {
	keys, err := readKeys(c.Key)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(c.File)
	if err != nil {
		return fmt.Errorf("read the proof: %w", err)
	}
	proven, err := ledger.CheckProof(text, keys)
	if err != nil {
		return err
	}
	e, at := &proven.Entry, time.UnixMicro(proven.Entry.RecordedAt)
	facts := struct {
		LogIndex   int64     `json:"logIndex"`
		ID         string    `json:"id"`
		Source     string    `json:"source"`
		Type       string    `json:"type"`
		Stream     string    `json:"stream"`
		RecordedAt time.Time `json:"recordedAt"`
		Data       string    `json:"dataSha256"`
		Origin     string    `json:"origin"`
		Entries    int64     `json:"entries"`
	}{
		proven.LogIndex, e.ID, e.Source, e.Type, fmt.Sprintf("%s/%v/%d", e.StreamType, e.StreamID, e.StreamVersion),
		at.UTC(), hex.EncodeToString(e.Data), proven.Checkpoint.Origin, proven.Checkpoint.Tree.N,
	}
	return env.show(result{facts, func(env *environment) {
		env.table(
			[]any{"PROOF", "holds: this event was in the log when the checkpoint was signed"},
			[]any{"log index", facts.LogIndex}, []any{"event", facts.ID}, []any{"source", facts.Source},
			[]any{"type", facts.Type}, []any{"stream", facts.Stream}, []any{"recorded", formatTime(&at)},
			[]any{"SHA-256 of data", facts.Data},
			[]any{"checkpoint", fmt.Sprintf("%d entries of %s", facts.Entries, facts.Origin)},
		)
	}}, nil)
}

func (*ledgerNewKey) Help() string { return "All keys of the signer directory sign." }

func (c *ledgerCommand) run(ctx context.Context, env *environment) error {
	pool, err := env.pool(ctx)
	if err != nil {
		return err
	}
	status, err := readLedger(ctx, pool)
	if env.verb == "status" || err != nil {
		return env.show(result{status, func(env *environment) { printStatus(env, &status) }}, err)
	}
	if status.Origin == nil {
		return errors.New("the ledger has no origin yet: start `novelgate serve` first")
	}
	directory := c.NewKey.Ledger.directory(c.NewKey.DataDir)
	key, err := directory.AddKey(*status.Origin)
	added := struct {
		File        string `json:"file"`
		VerifierKey string `json:"verifierKey"`
	}{directory.KeyFile(), key}
	return env.show(result{added, func(env *environment) {
		fmt.Fprintln(env.stdout, key)
		fmt.Fprintln(env.stderr, "The private key is in", directory.KeyFile()+". Replicas sign with it after a restart.")
	}}, err)
}

// readLedger reads the status of the ledger. A replica that starts without the signer directory records why it does not
// sign, also beside one that signs, which clears that at its next attempt, after a second. So what looks like trouble
// is read once more.
func readLedger(ctx context.Context, pool *pgxpool.Pool) (ledger.Status, error) {
	const attempt = 2 * time.Second
	status, err := ledger.ReadStatus(ctx, pool)
	if err == nil && status.SigningError != nil && eventlog.Sleep(ctx, attempt) {
		return ledger.ReadStatus(ctx, pool)
	}
	return status, err
}

func printStatus(env *environment, s *ledger.Status) {
	checkpoint := "-"
	if s.CheckpointSize != nil && s.CheckpointAge != nil {
		checkpoint = fmt.Sprintf("%d entries, signed %.0f s ago", *s.CheckpointSize, *s.CheckpointAge)
	}
	rows := [][]any{
		{"LEDGER", ""},
		{"entries", s.Size},
		{"root", s.Root},
		{"unsealed events", s.UnsealedEvents},
		{"lag seconds", fmt.Sprintf("%.3f", s.LagSeconds)},
		{"origin", orDash(s.Origin)},
		{"signer", orDash(s.Signer)},
		{"checkpoint", checkpoint},
	}
	for _, key := range s.VerifierKeys {
		rows = append(rows, []any{"verifier key", key})
	}
	env.table(append(rows, []any{"trouble", cmp.Or(strings.Join(s.Trouble(), "; "), "-")})...)
}

// SignerFlags locate the signer directory of the ledger. They have the prefix --ledger-.
type SignerFlags struct {
	Signer string `env:"SIGNER" placeholder:"DIR" help:"Signer directory: the private keys of the ledger and its newest signed note. Replicas may share it; never use a copy of it (default: signer in the data directory, made at the first start)."`
}

func (f SignerFlags) directory(dataDir string) ledger.Directory {
	return ledger.Directory(cmp.Or(f.Signer, filepath.Join(cmp.Or(dataDir, pgserver.DefaultDataDir()), "signer")))
}

// LedgerFlags configure how serve signs checkpoints. They have the prefix --ledger-.
type LedgerFlags struct {
	SignerFlags
	Origin     string     `env:"ORIGIN" placeholder:"NAME" help:"Name that signs the ledger. Another name starts a new origin (default: the current one; at first the public URL without scheme, /ledger/ and 8 digits of the log's id)."`
	Witness    []*url.URL `env:"WITNESS" placeholder:"URL" help:"Witness that cosigns checkpoints (C2SP tlog-witness): its submission prefix. Repeatable. Redirects are not followed."`
	WitnessKey []string   `env:"WITNESS_KEY" placeholder:"KEY" help:"Public key of the witness, one for each --ledger-witness in the same order."`
	Quorum     int        `env:"QUORUM" placeholder:"NUMBER" help:"Cosignatures that the served checkpoint should have. After 10 s without them the newest one is served (default: one of each witness)."`
}

// validate checks the flags before anything starts.
func (f *LedgerFlags) validate() error {
	if len(f.WitnessKey) != len(f.Witness) {
		return fmt.Errorf("--ledger-witness-key: %d keys for %d of --ledger-witness", len(f.WitnessKey), len(f.Witness))
	}
	if f.Quorum < 0 || f.Quorum > len(f.Witness) {
		return fmt.Errorf("--ledger-quorum: %d, and there are %d witnesses", f.Quorum, len(f.Witness))
	}
	for i, u := range f.Witness {
		if _, err := parseHTTP("--ledger-witness", u.String()); err != nil {
			return err
		}
		if _, err := ledger.NewWitnessVerifier(f.WitnessKey[i]); err != nil {
			return fmt.Errorf("--ledger-witness-key: %w", err)
		}
		if slices.Contains(f.WitnessKey[:i], f.WitnessKey[i]) {
			return fmt.Errorf("--ledger-witness-key: %q is there twice", f.WitnessKey[i])
		}
	}
	if dir := filepath.Dir(f.Signer); f.Signer != "" {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) { // perhaps misspelt
			return fmt.Errorf("--ledger-signer: there is no directory %s", dir)
		}
	}
	return nil
}

// parts returns the parts that seal, sign and ask witnesses. A replica that cannot sign logs the reason.
func (f *LedgerFlags) parts(
	ctx context.Context, config ledger.SealerConfig, dataDir string, public *url.URL,
) ([]part, error) {
	directory := f.directory(dataDir)
	id, err := ledger.Identify(ctx, config.Pool, ledger.IdentityConfig{
		Origin: f.Origin, Directory: directory,
		// The address without its scheme, as C2SP tlog-tiles recommends.
		OriginPrefix: public.Host + public.Path + "/ledger",
	})
	if err != nil {
		return nil, err
	}
	if id.Started && id.Previous != "" {
		config.Logger.WarnContext(ctx, "the ledger is signed under a new origin from now on",
			slog.String("origin", id.Origin), slog.String("previous", id.Previous))
	}
	if directory.KeysAreExposed() {
		config.Logger.WarnContext(ctx, "others can read the private keys of the ledger",
			slog.String("file", directory.KeyFile()))
	}
	parts := []part{{"sealer", always(ledger.NewSealer(config).Run)}}
	signer, err := ledger.NewSigner(ledger.SignerConfig{
		Pool: config.Pool, Identity: id, Metrics: config.Metrics, Logger: config.Logger,
	})
	if err == nil {
		parts = append(parts, part{"signer", always(signer.Run)})
	} else {
		config.Logger.WarnContext(ctx, "this replica seals but does not sign", slog.Any("reason", err))
	}
	for i, address := range f.Witness {
		witness, err := ledger.NewWitness(ledger.WitnessConfig{
			Pool: config.Pool, Origin: id.Origin, URL: address, VerifierKey: f.WitnessKey[i],
			Quorum: cmp.Or(f.Quorum, len(f.Witness)), Metrics: config.Metrics, Logger: config.Logger,
		})
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{"witness", always(witness.Run)})
	}
	return parts, nil
}
