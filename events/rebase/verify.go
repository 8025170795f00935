package rebase

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
	"novelgate/events/ledger/audit"
	"novelgate/internal/database"
)

// verify hashes all sealed events as stored, compares the result with the tree and with the served checkpoint, and
// returns the root; "" without sealed events.
func (w *work) verify(ctx context.Context, phase string) (root string, err error) {
	if w.report.Sealed == 0 {
		return "", nil
	}
	source, err := newTreeSource(ctx, w.tx)
	if err != nil {
		return "", err
	}
	config := audit.Config{
		Source: source, Keys: []string{source.key}, Kept: source.kept, Now: w.Now,
		Progress: func(done, total int64) { w.Progress(phase, done, total) },
	}
	report, err := audit.Verify(ctx, config)
	if err != nil {
		return "", fmt.Errorf("%s: %w", phase, err)
	}
	if !report.OK {
		return "", fmt.Errorf("%w: %s: %s", ErrLedger, phase, report.Faults[0].String())
	}
	return report.Root, nil
}

// treeSource is the database, as the transaction sees it, with a temporary checkpoint over the whole tree, including
// entries that are not signed yet. The key of this checkpoint is discarded afterwards, and the checkpoint is
// never published.
type treeSource struct {
	*audit.Database
	mu   sync.Mutex        // a transaction answers one goroutine at a time
	key  string            // verifier key of the temporary checkpoint
	note []byte            // the temporary checkpoint
	kept map[string][]byte // the served checkpoint
}

func newTreeSource(ctx context.Context, db database.Querier) (*treeSource, error) {
	s := &treeSource{Database: audit.NewDatabase(db), kept: map[string][]byte{}}
	store := ledger.NewStore(db)
	served, err := readServed(ctx, store)
	if err != nil {
		return nil, err
	}
	if served.Note != nil {
		s.kept["the served checkpoint"] = served.Note
	}
	tree, err := store.Tree(ctx)
	if err != nil {
		return nil, err
	}
	return s, s.sign(ledger.Checkpoint{Origin: cmp.Or(served.Origin, "novelgate/rebase"), Tree: tree})
}

// readServed returns the served checkpoint; the zero Checkpoint if its origin has signed none yet. It verifies the
// signatures, because an audit does not verify those of kept checkpoints.
func readServed(ctx context.Context, store *ledger.Store) (ledger.Checkpoint, error) {
	served, err := store.Served(ctx)
	if errors.Is(err, ledger.ErrNotFound) {
		return ledger.Checkpoint{}, nil
	}
	if err != nil {
		return ledger.Checkpoint{}, err
	}
	signers, err := store.SignersOf(ctx, served)
	if err != nil {
		return ledger.Checkpoint{}, err
	}
	if len(signers) == 0 {
		return ledger.Checkpoint{}, fmt.Errorf("%w: the served checkpoint has no valid signature of a key of its origin",
			ErrLedger)
	}
	return served, nil
}

// sign sets the temporary checkpoint, signed with a new key.
func (s *treeSource) sign(c ledger.Checkpoint) error {
	private, public, err := note.GenerateKey(rand.Reader, c.Origin)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	s.key = public
	if s.note, err = note.Sign(&note.Note{Text: c.Body()}, signer); err != nil {
		return fmt.Errorf("sign the tree: %w", err)
	}
	return nil
}

// Checkpoint implements audit.Source.
func (s *treeSource) Checkpoint(context.Context) ([]byte, error) { return s.note, nil }

// Keys implements audit.Source.
func (s *treeSource) Keys(context.Context) ([]string, error) { return []string{s.key}, nil }

// Tile implements audit.Source.
func (s *treeSource) Tile(ctx context.Context, tile tlog.Tile) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Database.Tile(ctx, tile)
}

// Events implements audit.Source.
func (s *treeSource) Events(ctx context.Context, first int64, count int, size int64) ([]ledger.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Database.Events(ctx, first, count, size)
}
