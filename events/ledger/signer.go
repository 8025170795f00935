package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// DefaultInterval is how often at most a checkpoint is signed.
const DefaultInterval = time.Second

// SignerConfig says how a Signer works.
type SignerConfig struct {
	// Pool has a connection to spare. Required.
	Pool *pgxpool.Pool
	// Identity is what it signs as; it has keys and the memory of its origin. Required.
	Identity *Identity
	// Interval between checkpoints while events arrive. Default: DefaultInterval.
	Interval time.Duration
	// Metrics count. Default: new ones, not registered.
	Metrics *Metrics
	// Logger gets what goes wrong. Default: slog.Default.
	Logger *slog.Logger
}

// Signer signs checkpoints over what is sealed. An origin is signed through one memory outside of the database,
// which replicas may share: who signs holds it, and puts each checkpoint into it before the checkpoint goes into
// the database, from where it is served.
type Signer struct {
	config SignerConfig
	store  *Store
	// known is the newest checkpoint that this process has seen in the memory. It shows a memory that was set back
	// together with the database.
	known *tlog.Tree
}

// NewSigner returns a signer that does nothing before Run. It fails if the identity cannot sign.
func NewSigner(config SignerConfig) (*Signer, error) {
	if len(config.Identity.signers) == 0 {
		return nil, fmt.Errorf("create signer: %w", config.Identity.Reason)
	}
	config.Interval = cmp.Or(config.Interval, DefaultInterval)
	config.Metrics = cmp.Or(config.Metrics, NewMetrics())
	config.Logger = cmp.Or(config.Logger, slog.Default())
	config.Metrics.signer.Set(1)
	return &Signer{config: config, store: NewStore(config.Pool)}, nil
}

// Run signs until ctx ends. What goes wrong is logged and tried again.
func (s *Signer) Run(ctx context.Context) {
	ticker := time.NewTicker(s.config.Interval)
	defer ticker.Stop()
	for failed := (failures{}); ; {
		err := s.Sign(ctx)
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, ErrLocked) { // otherwise another replica signs, and this one checked nothing
			s.config.Metrics.refuse(refused(err))
			s.config.Metrics.signer.Set(truth(!errors.Is(err, ErrMemory) && !errors.Is(err, fs.ErrNotExist)))
			s.report(ctx, failed.due(err), err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// report logs a failure that is due.
func (s *Signer) report(ctx context.Context, due bool, err error) {
	switch {
	case due && errors.Is(err, ErrForked):
		s.config.Logger.ErrorContext(ctx, "The ledger is not signed any more: start a new origin with --ledger-origin, "+
			"and say why in public", slog.Any("error", err))
	case due && errors.Is(err, ErrMemory):
		s.config.Logger.ErrorContext(ctx, "This replica does not sign the ledger any more",
			slog.String("memory", s.config.Identity.Memory), slog.Any("error", err))
	case due:
		s.config.Logger.WarnContext(ctx, "Signing a checkpoint failed; trying again", slog.Any("error", err))
	}
}

// factsSQL finds, in one snapshot, the tree as it is committed, the memory of an origin and its last checkpoint, if
// there are, and whether the log has more. $1: origin.
const factsSQL = `SELECT s.tree_size, s.root_hash, s.transaction_id, s.position, m.memory, c.tree_size, c.root_hash,
       EXISTS (SELECT FROM events AS e WHERE (e.transaction_id, e.position) > (s.transaction_id, s.position))
FROM ledger_state AS s
LEFT JOIN ledger_memories AS m ON m.origin = $1
LEFT JOIN LATERAL (
    SELECT tree_size, root_hash FROM ledger_checkpoints WHERE origin = $1 ORDER BY tree_size DESC LIMIT 1
) AS c ON true`

// readDatabase adds to the facts what the database says about an origin.
func (f *facts) readDatabase(ctx context.Context, db database.Querier, origin string) error {
	var last *int64
	var lastRoot []byte
	at, err := scanState(db.QueryRow(ctx, factsSQL, origin), &f.bound, &last, &lastRoot, &f.unsealed)
	if err != nil {
		return err
	}
	f.tree = tlog.Tree{N: at.size, Hash: at.root}
	if last != nil {
		f.last = &tlog.Tree{N: *last}
		copy(f.last.Hash[:], lastRoot)
	}
	return nil
}

// readMemory adds to the facts what a memory says about an origin.
func (f *facts) readMemory(dir, origin string) error {
	c, ok, err := readRemembered(dir, origin)
	if ok {
		f.remembered = &c.Tree
	}
	return err
}

// insertCheckpointSQL stores a checkpoint behind the one that it follows, if the tree is still there: a fail-over may
// have come in between. The caller has not switched synchronous_commit off: with this row, all that it covers is on
// disk.
const insertCheckpointSQL = `INSERT INTO ledger_checkpoints (origin, tree_size, previous_size, root_hash, note, memory, signed_at)
SELECT $1, $2, $3, $4, $5, $6, statement_timestamp()
WHERE EXISTS (SELECT FROM ledger_state WHERE tree_size >= $2)`

var errMoved = errors.New("the ledger was set back while a checkpoint was signed")

// signTimeout bounds one signature: a database that went silent must not keep the memory from other replicas for ever.
const signTimeout = time.Minute

// Sign signs a checkpoint if the tree has grown since the last one. It fails with ErrForked if the tree does not extend
// what was signed before, with ErrMemory if the memory must not sign, and with ErrLocked while another process signs.
func (s *Signer) Sign(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	memory, unlock, err := lockMemory(s.config.Identity.Memory)
	if err != nil {
		return err
	}
	defer unlock()
	// One connection: what is stored goes to the server that was asked, also when another one is promoted in between.
	conn, err := s.config.Pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire connection: %w", err)
	}
	defer conn.Release()
	next, err := s.next(ctx, conn, memory)
	if err != nil || next == nil {
		return err
	}
	if err := s.remember(next); err != nil {
		return err
	}
	return s.insert(ctx, conn, next)
}

// signature is a signed checkpoint on its way: first into the memory, then into the database.
type signature struct {
	Checkpoint
	memory   uuid.UUID
	previous *int64 // size of the checkpoint that it follows
}

// next signs a checkpoint that is not public yet; nil if there is nothing to sign.
func (s *Signer) next(ctx context.Context, conn *pgxpool.Conn, memory uuid.UUID) (*signature, error) {
	id := s.config.Identity
	f := facts{memory: memory, keyMemory: id.keyMemory, known: s.known}
	if err := f.readMemory(id.Memory, id.Origin); err != nil {
		return nil, err
	}
	if err := f.readDatabase(ctx, conn, id.Origin); err != nil {
		return nil, err
	}
	hashes := NewStore(conn).Hashes(ctx, f.tree)
	ready, err := f.decide(func(older tlog.Tree) error { return Extends(f.tree, older, hashes) })
	if err != nil {
		return nil, err
	}
	if r := f.remembered; r != nil && r.N <= f.tree.N && (s.known == nil || r.N > s.known.N) {
		s.known = r // the tree extends it
	}
	if !ready {
		return nil, nil
	}
	// The memory must not know a tree that a failover to a synchronous standby loses.
	if err := eventlog.AwaitReplicated(ctx, conn); err != nil {
		return nil, err
	}
	next := &signature{memory: memory, Checkpoint: Checkpoint{Origin: id.Origin, Tree: f.tree}}
	if f.last != nil {
		next.previous = &f.last.N
	}
	if next.Note, err = note.Sign(&note.Note{Text: next.Body()}, id.signers...); err != nil {
		return nil, fmt.Errorf("sign checkpoint: %w", err)
	}
	return next, nil
}

// remember puts a checkpoint into the memory, which no restore of the database sets back.
func (s *Signer) remember(n *signature) error {
	if err := remember(s.config.Identity.Memory, n.Checkpoint); err != nil {
		return fmt.Errorf("remember what is signed: %w", err)
	}
	s.known = &n.Tree
	return nil
}

// insert puts a checkpoint into the database. The memory has it.
func (s *Signer) insert(ctx context.Context, conn *pgxpool.Conn, n *signature) error {
	tag, err := conn.Exec(ctx, insertCheckpointSQL,
		n.Origin, n.Tree.N, n.previous, n.Tree.Hash[:], string(n.Note), n.memory)
	if eventlog.IsConflict(err) {
		return nil // the next attempt sees what is there
	}
	if err != nil {
		return fmt.Errorf("store checkpoint: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return errMoved
	}
	s.config.Metrics.signatures.Inc()
	return nil
}

// failures says which of a signer's failures in a row are logged: the first one of a kind, and one a minute of those
// that go on.
type failures struct {
	kind  failureKind
	count int // of that kind, without a break
}

type failureKind int

const (
	failedOtherwise failureKind = iota
	failedAway                  // the database could not be asked
	failedRefused               // the tree or the memory is not what was signed
)

// due takes the outcome of an attempt, and reports whether it is to be logged. Success is not.
func (f *failures) due(err error) bool {
	const again = 60 // attempts after which a failure that goes on is logged once more
	kind, first := failedOtherwise, 0
	switch {
	case err == nil:
		*f = failures{}
		return false
	case refused(err):
		kind = failedRefused
	case eventlog.IsAway(err):
		kind, first = failedAway, 1 // mostly it is there at the next attempt
	}
	if kind != f.kind {
		*f = failures{kind: kind}
	}
	due := f.count%again == first
	f.count++
	return due
}
