package verify

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	formats "github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
)

// keptTree is a checkpoint that the auditor has kept.
type keptTree struct {
	name   string
	origin string // of the checkpoint; may be an earlier one of the ledger
	own    bool   // not kept by the auditor: the ledger's own checkpoint of an earlier origin
	tree   tlog.Tree
	agrees *bool // with the tree that has the signed root
	each   [trees]*bool
}

// leaver is a source that knows the earlier origins of the ledger. With other sources, only the auditor knows whether a
// kept checkpoint is of this ledger.
type leaver interface {
	// Left returns the newest checkpoint of an earlier origin that covers fewer than size entries; nil for none. It fails
	// with ErrOrigin for an origin that the ledger never had.
	Left(ctx context.Context, origin string, size int64) ([]byte, error)
}

// Errors of Run.
var (
	ErrCheckpoint = errors.New("not a checkpoint")
	ErrKey        = errors.New("not a verifier key")
	ErrOrigin     = errors.New("is of another origin")
	ErrFirst      = errors.New("the history begins elsewhere") // than Config.First
)

// open reads the checkpoint, its signatures, and the kept checkpoints.
func (v *verification) open(ctx context.Context) error {
	signed, err := v.source.Checkpoint(ctx)
	if err != nil {
		return fmt.Errorf("read checkpoint: %w", err)
	}
	keys := v.Keys
	if len(keys) == 0 {
		if keys, err = v.source.Keys(ctx); err != nil {
			return fmt.Errorf("read verifier keys: %w", err)
		}
	}
	origin, tree, err := parse(signed)
	if err != nil {
		return err
	}
	v.tree = tree
	used, err := signers(signed, keys)
	if err != nil {
		return err
	}
	v.setReport(origin, used)
	if len(used) == 0 {
		v.add(Fault{Part: Signature, Count: 1, Detail: "the checkpoint does not bear a valid signature of the given key"})
	}
	for _, name := range slices.Sorted(maps.Keys(v.Kept)) {
		keptOrigin, tree, err := parse(v.Kept[name])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		v.kept = append(v.kept, keptTree{name: name, origin: keptOrigin, tree: tree})
		if keptOrigin == origin {
			continue
		}
		if err := v.keepOwn(ctx, keptOrigin, tree.N); err != nil {
			return fmt.Errorf("%s %w: %s instead of %s", name, err, keptOrigin, origin)
		}
	}
	slices.SortStableFunc(v.kept, func(a, b keptTree) int { return cmp.Compare(a.tree.N, b.tree.N) })
	return nil
}

// keepOwn adds the ledger's newest checkpoint of an earlier origin to the kept ones. Lost events come after it.
func (v *verification) keepOwn(ctx context.Context, origin string, size int64) error {
	source, ok := v.source.(leaver)
	if !ok {
		return nil
	}
	signed, err := source.Left(ctx, origin, size)
	if err != nil || signed == nil {
		return err
	}
	_, tree, err := parse(signed)
	if err != nil {
		return err
	}
	v.kept = append(v.kept, keptTree{origin: origin, own: true, tree: tree})
	return nil
}

// parse reads a checkpoint without looking at its signatures.
func parse(signed []byte) (origin string, tree tlog.Tree, err error) {
	var body formats.Checkpoint
	if _, err := body.Unmarshal(signed); err != nil {
		return "", tlog.Tree{}, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	const most = 1 << 48
	if len(body.Hash) != tlog.HashSize || body.Size > most {
		return "", tlog.Tree{}, fmt.Errorf("%w: %d entries, a root of %d bytes", ErrCheckpoint, body.Size, len(body.Hash))
	}
	return body.Origin, tlog.Tree{N: int64(body.Size), Hash: tlog.Hash(body.Hash)}, nil
}

// signers returns the keys that have signed a note. It checks each key separately. A key's name must be the origin.
func signers(signed []byte, keys []string) ([]string, error) {
	var used []string
	for _, key := range keys {
		verifier, err := note.NewVerifier(key)
		if err != nil {
			return nil, fmt.Errorf("%w: %q", ErrKey, key)
		}
		opened, err := note.Open(signed, note.VerifierList(verifier))
		if err != nil || !bytes.HasPrefix([]byte(opened.Text), []byte(verifier.Name()+"\n")) {
			continue
		}
		used = append(used, key)
	}
	return used, nil
}

// keptInside reports whether a kept checkpoint ends between two sizes.
func (v *verification) keptInside(from, to int64) bool {
	return slices.ContainsFunc(v.kept, func(k keptTree) bool { return k.tree.N > from && k.tree.N < to })
}

// compareKept compares a tree at its current size with the kept checkpoints of this size.
func (v *verification) compareKept(number int) {
	for i := range v.kept {
		t := v.trees[number]
		if k := &v.kept[i]; k.tree.N == t.edge.Size() {
			k.each[number] = new(t.edge.Root() == k.tree.Hash)
		}
	}
}

// keptFaults reports on the kept checkpoints. The first rewritten entry is between the largest checkpoint that agrees
// and the smallest that does not.
func (v *verification) keptFaults(ctx context.Context) error {
	compared := entryTree // unless only the other one has the signed root, or all leaves
	if !v.hasRoot(entryTree) && (v.hasRoot(tileTree) || v.trees[entryTree].broken) {
		compared = tileTree
	}
	from := int64(0)
	told := false
	var lost []*keptTree
	for i := range v.kept {
		k := &v.kept[i]
		k.agrees = k.each[compared]
		if k.own {
			if k.agrees != nil && *k.agrees {
				from = k.tree.N
			}
			continue
		}
		if k.tree.N > v.tree.N {
			k.agrees = new(false)
		}
		v.report.Kept = append(v.report.Kept, Kept{Name: k.name, Size: k.tree.N, Agrees: k.agrees})
		switch {
		case k.agrees == nil && k.tree.N < v.source.First():
			v.add(Fault{Part: Uncompared, Count: 1, Detail: fmt.Sprintf(
				"%s covers %d entries and ends in front of the first event that was looked at, log index %d, so it could not be "+
					"compared: verify together with the older bundle",
				k.name, k.tree.N, v.source.First())})
		case k.agrees == nil:
			v.add(Fault{
				Part: Rewritten, Count: 1,
				Detail: "whether the history is that of " + k.name + " can't be told: entries are missing",
			})
		case *k.agrees:
			from = k.tree.N
		case k.origin != v.report.Origin:
			lost = append(lost, k)
		case told:
		case k.tree.N > v.tree.N:
			told = true
			index := v.tree.N
			detail := fmt.Sprintf("%s covers %d entries, and the history has %d", k.name, k.tree.N, index)
			v.add(Fault{Part: Truncated, LogIndex: &index, Count: k.tree.N - index, Detail: detail})
		default:
			told = true
			f := Fault{Part: Rewritten, LogIndex: &from, Count: 1, Detail: fmt.Sprintf(
				"the first %d entries are not those of %s; the first that differs has a log index from %d to %d", k.tree.N, k.name,
				from, k.tree.N-1)}
			if v.Older != nil {
				if err := v.locate(ctx, &f, k.tree.N); err != nil {
					return err
				}
			}
			v.add(f)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	f := v.lostFault(from, lost[0], lost[len(lost)-1])
	if v.Older != nil {
		if err := v.locate(ctx, &f, lost[0].tree.N); err != nil {
			return err
		}
		f.Count = lost[len(lost)-1].tree.N - *f.LogIndex
	}
	v.add(f)
	return nil
}

// lostFault reports entries of an earlier origin that the ledger has lost. The first from entries agree; first and last
// are the smallest and the largest kept checkpoint that do not agree.
func (v *verification) lostFault(from int64, first, last *keptTree) Fault {
	detail := fmt.Sprintf("%s covers %d entries of %s, and the history is signed as %s: "+
		"its first %d entries are the same, the first that is lost has a log index from %d to %d",
		last.name, last.tree.N, last.origin, v.report.Origin, from, from, first.tree.N-1)
	if _, ok := v.source.(leaver); !ok {
		detail += "; or it is a checkpoint of another ledger"
	}
	return Fault{Part: Lost, LogIndex: &from, Count: last.tree.N - from, Detail: detail}
}

// locate finds the first leaf that differs from that of an older bundle.
func (v *verification) locate(ctx context.Context, f *Fault, size int64) error {
	for start := v.Older.First(); start < size; start += ledger.TileWidth {
		then, err := read(ctx, v.Older, tileAt(0, start, size))
		if err != nil {
			return err
		}
		now, err := read(ctx, v.source, tileAt(0, start, max(start, v.tree.N)))
		if err != nil {
			return err
		}
		for i := 0; i < len(then); i += tlog.HashSize {
			if i < len(now) && bytes.Equal(then[i:][:tlog.HashSize], now[i:][:tlog.HashSize]) {
				continue
			}
			index := start + int64(i/tlog.HashSize)
			f.LogIndex, f.Detail = &index, "the entry is not that of the older bundle"
			entries, err := read(ctx, v.Older, tileAt(-1, start, size))
			if err != nil {
				return err
			}
			raws, _ := ledger.SplitBundle(entries, int(index-start)+1) // more of them follow
			if n := int(index - start); n < len(raws) {
				if e, err := ledger.ParseEntry(raws[n]); err == nil {
					f.ID, f.Source = e.ID, e.Source
				}
			}
			return nil
		}
	}
	return nil
}
