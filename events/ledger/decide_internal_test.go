package ledger

import (
	"errors"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"
)

// TestDecide: the signer of an origin signs what extends all that was signed, and nothing else. Numbers are sizes of
// trees, 0 for none.
func TestDecide(t *testing.T) {
	t.Parallel()
	own, errRead := uuid.NullUUID{UUID: uuid.UUID{1}, Valid: true}, errors.New("read")
	forks := func(size int64) func(tlog.Tree) error {
		return func(older tlog.Tree) error {
			if older.N == size {
				return ErrForked
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		signer                   uuid.NullUUID
		known, noted, last, tree int64
		unsealed                 bool
		extends                  func(older tlog.Tree) error // nil: all trees do
		sign                     bool
		refusal                  error
	}{
		"the first checkpoint":           {signer: own, tree: 3, sign: true},
		"the tree has grown":             {signer: own, known: 3, noted: 3, last: 3, tree: 5, sign: true},
		"nothing new":                    {signer: own, known: 5, noted: 5, last: 5, tree: 5},
		"noted before a crash":           {signer: own, noted: 5, last: 3, tree: 5, sign: true},
		"noted before a crash, and more": {signer: own, noted: 5, last: 3, tree: 7, sign: true},
		"the origin is unknown":          {noted: 3, tree: 5, refusal: ErrDirectory},
		"the directory of another": {
			signer: uuid.NullUUID{UUID: uuid.UUID{2}, Valid: true}, tree: 5, refusal: ErrDirectory,
		},
		"an old copy of the directory":    {signer: own, noted: 3, last: 5, tree: 7, refusal: ErrDirectory},
		"a directory without a note":      {signer: own, last: 5, tree: 7, refusal: ErrDirectory},
		"events are to be sealed again":   {signer: own, noted: 5, last: 5, tree: 3, unsealed: true},
		"noted events are lost":           {signer: own, noted: 5, last: 3, tree: 3, refusal: ErrForked},
		"stored events are lost":          {signer: own, noted: 5, last: 5, tree: 3, refusal: ErrForked},
		"directory and log were set back": {signer: own, known: 5, noted: 3, last: 3, tree: 4, refusal: ErrForked},
		"another history than known": {
			signer: own, known: 3, noted: 2, last: 2, tree: 4, extends: forks(3), refusal: ErrForked,
		},
		"another history than noted":  {signer: own, noted: 4, last: 3, tree: 4, extends: forks(4), refusal: ErrForked},
		"another history than stored": {signer: own, noted: 4, last: 3, tree: 5, extends: forks(3), refusal: ErrForked},
		"the tree cannot be read": {
			signer: own, noted: 3, last: 3, tree: 4, extends: func(tlog.Tree) error { return errRead }, refusal: errRead,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := func(size int64) *tlog.Tree {
				if size == 0 {
					return nil
				}
				return &tlog.Tree{N: size}
			}
			if c.extends == nil {
				c.extends = func(tlog.Tree) error { return nil }
			}
			f := facts{
				directory: own.UUID, signer: c.signer, known: tree(c.known), noted: tree(c.noted), last: tree(c.last),
				tree: tlog.Tree{N: c.tree}, unsealed: c.unsealed,
			}
			if sign, err := f.decide(c.extends); sign != c.sign || !errors.Is(err, c.refusal) {
				t.Errorf("%v, %v; want %v, %v", sign, err, c.sign, c.refusal)
			}
		})
	}
}
