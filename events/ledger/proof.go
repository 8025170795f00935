package ledger

import (
	"errors"
	"fmt"

	"github.com/transparency-dev/formats/proof"
	"golang.org/x/mod/sumdb/tlog"
)

// ErrProof is returned for a proof that proves nothing.
var ErrProof = errors.New("the proof does not hold")

// Proven is what a proof says about one event.
type Proven struct {
	LogIndex   int64
	Entry      Entry
	Checkpoint Checkpoint
}

// CheckProof checks a proof of Store.Proof without a network: a key has signed the checkpoint, and its tree has the
// entry in the proof at the log index. It fails with ErrProof otherwise.
func CheckProof(text []byte, verifierKeys []string) (Proven, error) {
	var p proof.TLogProof
	if err := p.Unmarshal(text); err != nil {
		return Proven{}, fmt.Errorf("%w: %w", ErrProof, err)
	}
	c, err := ParseCheckpoint(p.Checkpoint)
	if err != nil {
		return Proven{}, fmt.Errorf("%w: %w", ErrProof, err)
	}
	signed := false
	for _, key := range verifierKeys {
		by, err := c.SignedBy(key)
		if err != nil {
			return Proven{}, err
		}
		signed = signed || by
	}
	if !signed {
		return Proven{}, fmt.Errorf("%w: none of the keys has signed its checkpoint", ErrProof)
	}
	if p.Index >= uint64(c.Tree.N) { //nolint:gosec // never negative
		return Proven{}, fmt.Errorf("%w: log index %d of %d entries", ErrProof, p.Index, c.Tree.N)
	}
	hashes := make(tlog.RecordProof, len(p.Hashes))
	for i, hash := range p.Hashes {
		hashes[i] = hash
	}
	proven := Proven{LogIndex: int64(p.Index), Checkpoint: c} //nolint:gosec // below the size of the tree
	err = tlog.CheckRecord(hashes, c.Tree.N, c.Tree.Hash, proven.LogIndex, tlog.RecordHash(p.ExtraData))
	if err != nil {
		return Proven{}, fmt.Errorf("%w: the signed tree does not have its entry: %w", ErrProof, err)
	}
	proven.Entry, err = ParseEntry(p.ExtraData)
	return proven, err
}
