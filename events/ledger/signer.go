package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/eventlog"
)

// DefaultInterval is how often at most a checkpoint is signed.
const DefaultInterval = time.Second

// SignerConfig says how a Signer works.
type SignerConfig struct {
	// Pool has a connection to spare. Required.
	Pool *pgxpool.Pool
	// Identity is what it signs as; it has keys. Required.
	Identity *Identity
	// Interval between checkpoints while events arrive. Default: DefaultInterval.
	Interval time.Duration
	// Metrics count. Default: new ones that nobody sees.
	Metrics *Metrics
	// Logger gets what goes wrong. Default: slog.Default.
	Logger *slog.Logger
}

// Signer signs checkpoints over what is sealed. Replicas that have the same key may all run one: of two that sign at the
// same time, one is on record, and the signature of the other is given to nobody.
type Signer struct {
	config SignerConfig
	store  *Store
	memory Checkpoint // the largest that this replica knows of, outside of the database; no origin: none
	kept   bool       // memory is in the file
}

// NewSigner returns a signer that does nothing before Run.
func NewSigner(config SignerConfig) (*Signer, error) {
	if config.Pool == nil || config.Identity == nil {
		return nil, errors.New("create signer: Pool or Identity is nil")
	}
	if len(config.Identity.signers) == 0 {
		return nil, fmt.Errorf("create signer: no key: %w", config.Identity.Reason)
	}
	if config.Interval <= 0 {
		config.Interval = DefaultInterval
	}
	if config.Metrics == nil {
		config.Metrics = NewMetrics()
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	s := &Signer{config: config, store: NewStore(config.Pool)}
	memory, ok, err := readNote(config.Identity.Memory)
	if err != nil {
		return nil, fmt.Errorf("create signer: %w", err)
	}
	if ok && memory.Origin == config.Identity.Origin {
		s.memory, s.kept = memory, true
	}
	return s, nil
}

// Run signs until ctx ends. What goes wrong is logged and tried again.
func (s *Signer) Run(ctx context.Context) {
	ticker := time.NewTicker(s.config.Interval)
	defer ticker.Stop()
	for failed := (failures{}); ; {
		err := s.Sign(ctx)
		forked := errors.Is(err, ErrForked)
		s.config.Metrics.refuse(forked)
		if ctx.Err() != nil {
			return
		}
		switch due := failed.due(err); {
		case due && forked:
			s.config.Logger.ErrorContext(ctx, "The ledger is not signed any more: start a new origin with --ledger-origin, and say why in public", slog.Any("error", err))
		case due:
			s.config.Logger.WarnContext(ctx, "Signing a checkpoint failed; trying again", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// signableSQL finds the tree as it is committed, and the last checkpoint of an origin, if there is one. $1: origin.
const signableSQL = `SELECT s.tree_size, s.root_hash, s.transaction_id, s.position, c.tree_size, c.root_hash, c.note
FROM ledger_state AS s
LEFT JOIN LATERAL (
    SELECT tree_size, root_hash, note FROM ledger_checkpoints WHERE origin = $1 ORDER BY tree_size DESC LIMIT 1
) AS c ON true`

// insertCheckpointSQL stores a checkpoint behind the one that it follows, if the tree is still there: a fail-over may have
// come in between. The caller has not switched synchronous_commit off: with this row, all that it covers is on disk.
const insertCheckpointSQL = `INSERT INTO ledger_checkpoints (origin, tree_size, previous_size, root_hash, note, signed_at)
SELECT $1, $2, $3, $4, $5, statement_timestamp()
WHERE EXISTS (SELECT FROM ledger_state WHERE tree_size >= $2)`

var errMoved = errors.New("the ledger was set back while a checkpoint was signed")

// Sign signs a checkpoint if the tree has grown since the last one. It fails with ErrForked if the tree does not extend
// what was signed before.
func (s *Signer) Sign(ctx context.Context) error {
	origin := s.config.Identity.Origin
	var previous *int64
	var previousRoot []byte
	var previousNote *string
	at, err := scanState(s.config.Pool.QueryRow(ctx, signableSQL, origin), &previous, &previousRoot, &previousNote)
	if err != nil {
		return err
	}
	grown := tlog.Tree{N: at.size, Hash: at.root}
	hashes := s.store.hashes(ctx, grown)
	if s.memory.Origin != "" {
		if err := extends(grown, s.memory.Tree, hashes); err != nil {
			return err
		}
	}
	if previous != nil {
		last := Checkpoint{Origin: origin, Tree: tlog.Tree{N: *previous}, Note: []byte(*previousNote)}
		copy(last.Tree.Hash[:], previousRoot)
		if err := extends(grown, last.Tree, hashes); err != nil {
			return err
		}
		if last.Tree.N == grown.N {
			return s.remember(last)
		}
	}
	c := Checkpoint{Origin: origin, Tree: grown}
	if c.Note, err = note.Sign(&note.Note{Text: c.body()}, s.config.Identity.signers...); err != nil {
		return fmt.Errorf("sign checkpoint: %w", err)
	}
	tag, err := s.config.Pool.Exec(ctx, insertCheckpointSQL, origin, grown.N, previous, grown.Hash[:], string(c.Note))
	if eventlog.IsConflict(err) {
		return nil // another replica was faster
	}
	if err != nil {
		return fmt.Errorf("store checkpoint: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return errMoved
	}
	s.config.Metrics.signatures.Inc()
	return s.remember(c)
}

// errMemory is returned while the signer's memory cannot be written. What it would say is known to this process all the same.
var errMemory = errors.New("what was signed could not be remembered outside of the database")

// remember keeps a checkpoint outside of the database, which may be set back. What could not be written is written the next time.
func (s *Signer) remember(c Checkpoint) error {
	if s.memory.Origin == "" || c.Tree.N > s.memory.Tree.N {
		s.memory, s.kept = c, false
	}
	if s.kept {
		return nil
	}
	if err := writeFile(s.config.Identity.Memory, s.memory.Note, keyFileMode); err != nil {
		return fmt.Errorf("%w: %w", errMemory, err)
	}
	s.kept = true
	return nil
}
