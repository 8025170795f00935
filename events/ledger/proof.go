package ledger

import (
	"context"
	"fmt"

	"github.com/transparency-dev/formats/proof"
	"golang.org/x/mod/sumdb/tlog"
)

// Proof returns the proof that the newest checkpoint covers an entry, in the form of C2SP tlog-proof: index, hashes,
// checkpoint. It fails with ErrNotFound for an index that no checkpoint covers yet.
func (s *Store) Proof(ctx context.Context, logIndex int64) ([]byte, error) {
	c, err := s.Latest(ctx)
	if err != nil {
		return nil, err
	}
	if logIndex < 0 || logIndex >= c.Tree.N {
		return nil, fmt.Errorf("log index %d of %d: %w", logIndex, c.Tree.N, ErrNotFound)
	}
	hashes, err := tlog.ProveRecord(c.Tree.N, logIndex, s.hashes(ctx, c.Tree))
	if err != nil {
		return nil, fmt.Errorf("prove entry %d of %d: %w", logIndex, c.Tree.N, err)
	}
	p := proof.TLogProof{Index: uint64(logIndex), Checkpoint: c.Note}
	for _, hash := range hashes {
		p.Hashes = append(p.Hashes, hash)
	}
	return p.Marshal(), nil
}
