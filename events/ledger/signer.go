package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// defaultInterval is the default interval between checkpoints, and between questions to a witness.
const defaultInterval = time.Second

// SignerConfig configures a Signer.
type SignerConfig struct {
	// Pool must have one connection for the signer. Required.
	Pool *pgxpool.Pool
	// Identity has the keys and the signer directory of the origin. Required.
	Identity *Identity
	// Interval is the time between two checkpoints of all replicas that share the directory. Default: 1 s.
	Interval time.Duration
	// Metrics count signatures, and say whether the signer signs or refuses to. Default: new, unregistered ones.
	Metrics *Metrics
	// Logger gets errors. Default: slog.Default.
	Logger *slog.Logger
}

// Signer signs checkpoints over sealed entries. Each origin has one signer directory, which replicas may share. The
// signing replica locks it, and stores each note first there and then in the database, which serves it.
type Signer struct {
	config SignerConfig
	store  *Store
	// known is the newest note that this process has seen in the directory. It detects a directory that was set back
	// together with the database.
	known *tlog.Tree
	// reported: at the last attempt, the database had the error of a signer.
	reported bool
	// apart is the minimum age of the checkpoint of another replica when Run signs the next one.
	apart time.Duration
}

// NewSigner returns a signer; start it with Run. It fails if the identity cannot sign.
func NewSigner(config SignerConfig) (*Signer, error) {
	if len(config.Identity.signers) == 0 {
		return nil, fmt.Errorf("create signer: %w", config.Identity.Reason)
	}
	config.Interval = cmp.Or(config.Interval, defaultInterval)
	config.Metrics = cmp.Or(config.Metrics, NewMetrics())
	config.Logger = cmp.Or(config.Logger, slog.Default())
	config.Metrics.signer.Set(1)
	return &Signer{config: config, store: NewStore(config.Pool)}, nil
}

// Run signs until ctx ends. It logs errors and retries.
func (s *Signer) Run(ctx context.Context) {
	s.apart = s.config.Interval * 3 / 4
	ticker := time.NewTicker(s.config.Interval)
	defer ticker.Stop()
	var failed failures
	for {
		err := s.Sign(ctx)
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, ErrLocked) { // otherwise another replica signs, and this one checked nothing
			s.config.Metrics.signingRefused.Set(database.BoolValue(refused(err)))
			s.config.Metrics.signer.Set(database.BoolValue(err == nil || eventlog.IsAway(err)))
			if failed.due(err) {
				s.report(ctx, err)
			}
			if err == nil && s.reported {
				s.recordError(ctx, nil)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// recordError records an error of signing in the state; nil: this replica signs.
func (s *Signer) recordError(ctx context.Context, signing error) {
	var text *string
	if signing != nil {
		text = new(eventlog.ErrorText(signing))
	}
	if _, err := s.config.Pool.Exec(ctx, recordSigningErrorSQL, text); err != nil {
		s.config.Logger.WarnContext(ctx, "The state of signing could not be recorded", slog.Any("error", err))
	}
}

// report logs a failure, and records it unless the database is away.
func (s *Signer) report(ctx context.Context, err error) {
	if !eventlog.IsAway(err) {
		s.recordError(ctx, err)
	}
	switch {
	case errors.Is(err, ErrForked):
		s.config.Logger.ErrorContext(ctx, "The ledger is not signed any more: start a new origin with --ledger-origin, "+
			"and say why in public", slog.Any("error", err))
	case errors.Is(err, ErrDirectory):
		s.config.Logger.ErrorContext(ctx, "This replica does not sign the ledger any more",
			slog.String("directory", string(s.config.Identity.Directory)), slog.Any("error", err))
	default:
		s.config.Logger.WarnContext(ctx, "Signing a checkpoint failed; trying again", slog.Any("error", err))
	}
}

// factsSQL reads, in one snapshot, the committed tree, the signer directory and the last checkpoint of an origin, if
// any, with its age, whether the log has more events than the tree, and whether an error of signing is recorded. $1:
// origin.
const factsSQL = `SELECT s.tree_size, s.root_hash, o.signer, c.tree_size, c.root_hash,
       coalesce(statement_timestamp() - c.signed_at, '0'), EXISTS (SELECT FROM events WHERE log_index >= s.tree_size),
       s.signing_error IS NOT NULL
FROM ledger_state AS s
LEFT JOIN ledger_origins AS o ON o.origin = $1
LEFT JOIN LATERAL (
    SELECT tree_size, root_hash, signed_at FROM ledger_checkpoints WHERE origin = $1 ORDER BY tree_size DESC LIMIT 1
) AS c ON true`

// readDatabase adds the data of the database about an origin to the facts.
func (f *facts) readDatabase(ctx context.Context, db database.Querier, origin string) (err error) {
	var last *int64
	var lastRoot []byte
	f.tree, err = scanTree(db.QueryRow(ctx, factsSQL, origin), &f.signer, &last, &lastRoot, &f.lastAge, &f.unsealed,
		&f.reported)
	if err != nil {
		return err
	}
	if last != nil {
		f.last = &tlog.Tree{N: *last}
		copy(f.last.Hash[:], lastRoot)
	}
	return nil
}

// readDirectory adds the newest note of an origin to the facts.
func (f *facts) readDirectory(d Directory, origin string) error {
	c, ok, err := d.signed(origin)
	if ok {
		f.noted = &c.Tree
	}
	return err
}

// insertCheckpointSQL stores a checkpoint after the previous one, unless the database has lost the tree in a failover.
// synchronous_commit must be on: with this row, all that the checkpoint covers is on disk.
const insertCheckpointSQL = `INSERT INTO ledger_checkpoints (origin, tree_size, previous_size, root_hash, note, signed_at)
SELECT $1, $2, $3, $4, $5, statement_timestamp()
WHERE EXISTS (SELECT FROM ledger_state WHERE tree_size >= $2)`

var errSetBack = errors.New("the ledger was set back while a checkpoint was signed")

// signTimeout limits one signature, so that a database that does not answer does not block the directory for other
// replicas.
const signTimeout = time.Minute

// Sign signs a checkpoint if the tree has grown since the last one, or there is none. It fails with ErrForked if the
// tree does not extend the signed one, with ErrDirectory if the directory must not sign, and with ErrLocked while
// another process signs.
func (s *Signer) Sign(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	directory, unlock, err := s.config.Identity.Directory.lock()
	if err != nil {
		return err
	}
	defer unlock()
	// One connection, so that the facts and the checkpoint have the same server even if another one is promoted in
	// between.
	conn, err := s.config.Pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire connection: %w", err)
	}
	defer conn.Release()
	next, err := s.signNext(ctx, conn, directory)
	if err != nil || next == nil {
		return err
	}
	if err := s.storeInDirectory(next); err != nil {
		return err
	}
	return s.insert(ctx, conn, next)
}

// signedCheckpoint is a checkpoint that is stored first in the directory, then in the database.
type signedCheckpoint struct {
	Checkpoint
	previous *int64 // size of the previous checkpoint; nil for the first one
}

// signNext returns the next checkpoint, signed but not stored; nil if there is nothing to sign.
func (s *Signer) signNext(ctx context.Context, conn *pgxpool.Conn, directory uuid.UUID) (*signedCheckpoint, error) {
	id := s.config.Identity
	f := facts{directory: directory, known: s.known}
	if err := f.readDirectory(id.Directory, id.Origin); err != nil {
		return nil, err
	}
	if err := f.readDatabase(ctx, conn, id.Origin); err != nil {
		return nil, err
	}
	s.reported = f.reported
	hashes := NewStore(conn).Hashes(ctx, f.tree)
	ready, err := f.decide(func(older tlog.Tree) error { return Extends(f.tree, older, hashes) })
	if err != nil {
		return nil, err
	}
	if r := f.noted; r != nil && r.N <= f.tree.N && (s.known == nil || r.N > s.known.N) {
		s.known = r // decide has checked that the tree extends it
	}
	// Replicas that share the directory together sign as often as one: see servedSQL. The age is negative after the clock
	// of the database was set back.
	tooSoon := f.last != nil && (f.known == nil || f.known.N < f.last.N) && f.lastAge >= 0 && f.lastAge < s.apart
	if !ready || tooSoon {
		return nil, nil
	}
	// The directory must not have a tree that a failover to a synchronous standby would lose.
	if err := eventlog.AwaitReplicated(ctx, conn); err != nil {
		return nil, err
	}
	next := &signedCheckpoint{Checkpoint: Checkpoint{Origin: id.Origin, Tree: f.tree}}
	if f.last != nil {
		next.previous = &f.last.N
	}
	if next.Note, err = note.Sign(&note.Note{Text: next.Body()}, id.signers...); err != nil {
		return nil, fmt.Errorf("sign checkpoint: %w", err)
	}
	return next, nil
}

// storeInDirectory stores a checkpoint in the directory, which no restore of the database changes.
func (s *Signer) storeInDirectory(next *signedCheckpoint) error {
	if err := s.config.Identity.Directory.store(next.Checkpoint); err != nil {
		return fmt.Errorf("store the checkpoint in the signer directory: %w", err)
	}
	s.known = &next.Tree
	return nil
}

// insert stores a checkpoint in the database. The directory has it already.
func (s *Signer) insert(ctx context.Context, conn *pgxpool.Conn, next *signedCheckpoint) error {
	tag, err := conn.Exec(ctx, insertCheckpointSQL,
		next.Origin, next.Tree.N, next.previous, next.Tree.Hash[:], string(next.Note))
	if eventlog.IsConflict(err) {
		return nil // the next attempt reads the new state
	}
	if err != nil {
		return fmt.Errorf("store checkpoint: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return errSetBack
	}
	s.config.Metrics.signatures.Inc()
	return nil
}

// failures selects the failures of a signer that are logged: the first one of a kind and every 60th after it, which is
// one a minute at the default interval. If the database was not reached, the second failure is the first to be logged.
type failures struct {
	kind  failureKind
	count int // consecutive failures of that kind
}

type failureKind int

const (
	failedOtherwise failureKind = iota
	failedAway                  // the database was not reached
	failedRefused               // an operator must act, see refused
)

// due takes the outcome of an attempt, and reports whether to log it. It never logs a success.
func (f *failures) due(err error) bool {
	const again = 60 // attempts between two logged failures of one kind
	kind, first := failedOtherwise, 0
	switch {
	case err == nil:
		*f = failures{}
		return false
	case refused(err):
		kind = failedRefused
	case eventlog.IsAway(err):
		kind, first = failedAway, 1 // mostly temporary
	}
	if kind != f.kind {
		*f = failures{kind: kind}
	}
	due := f.count%again == first
	f.count++
	return due
}
