package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
)

// keptTree is a checkpoint that the auditor has kept.
type keptTree struct {
	name   string
	origin string // of the checkpoint; may be an earlier one of the ledger
	own    bool   // not kept by the auditor, but the ledger's own checkpoint of an earlier origin
	tree   tlog.Tree
	agrees *bool // with the tree that has the signed root
	each   [trees]*bool
}

// Errors of Verify.
var (
	ErrOrigin = errors.New("is of another origin")
	ErrFirst  = errors.New("the history begins elsewhere") // different from Config.First
)

// open reads the checkpoint, its signatures, and the kept checkpoints.
func (v *verification) open(ctx context.Context) error {
	signed, err := v.Source.Checkpoint(ctx)
	if err != nil {
		return fmt.Errorf("read checkpoint: %w", err)
	}
	keys := v.Keys
	if len(keys) == 0 {
		if keys, err = v.Source.Keys(ctx); err != nil {
			return fmt.Errorf("read verifier keys: %w", err)
		}
	}
	c, err := ledger.ParseCheckpoint(signed)
	if err != nil {
		return err
	}
	v.tree = c.Tree
	used := []string{}
	for _, key := range keys {
		signed, err := c.SignedBy(key)
		if err != nil {
			return err
		}
		if signed {
			used = append(used, key)
		}
	}
	r := v.report
	r.Origin, r.Size, r.Root = c.Origin, c.Tree.N, base64.StdEncoding.EncodeToString(c.Tree.Hash[:])
	r.FirstLogIndex, r.Unverified = v.Source.First(), v.Source.First()
	r.Keys, r.KeysGiven = used, len(v.Keys) > 0
	if len(used) == 0 {
		v.add(Fault{Part: Signature, Count: 1, Detail: "the checkpoint does not bear a valid signature of the given key"})
	}
	if v.Policy != nil {
		if err := v.applyPolicy(c); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.Kept)) {
		kept, err := ledger.ParseCheckpoint(v.Kept[name])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		v.kept = append(v.kept, keptTree{name: name, origin: kept.Origin, tree: kept.Tree})
		if kept.Origin == c.Origin {
			continue
		}
		if err := v.keepOwn(ctx, kept.Origin, kept.Tree.N); err != nil {
			return fmt.Errorf("%s %w: %s instead of %s", name, err, kept.Origin, c.Origin)
		}
	}
	slices.SortStableFunc(v.kept, func(a, b keptTree) int { return cmp.Compare(a.tree.N, b.tree.N) })
	return nil
}

// keepOwn adds the ledger's newest checkpoint of an earlier origin to the kept ones, to detect lost events after it.
// Only a database knows the earlier origins.
func (v *verification) keepOwn(ctx context.Context, origin string, size int64) error {
	db, ok := v.Source.(*Database)
	if !ok {
		return nil
	}
	c, err := db.store.Before(ctx, origin, size)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return ErrOrigin
	case err != nil:
		return err
	case c.Note != nil:
		v.kept = append(v.kept, keptTree{origin: origin, own: true, tree: c.Tree})
	}
	return nil
}

// keptInside reports whether a kept checkpoint ends between two sizes.
func (v *verification) keptInside(from, to int64) bool {
	return slices.ContainsFunc(v.kept, func(k keptTree) bool { return k.tree.N > from && k.tree.N < to })
}

// compareKept compares trees at their current sizes with the kept checkpoints of these sizes.
func (v *verification) compareKept(numbers ...int) {
	for _, number := range numbers {
		edge := v.trees[number].edge
		for i := range v.kept {
			if k := &v.kept[i]; k.tree.N == edge.Size() {
				k.each[number] = new(edge.Root() == k.tree.Hash)
			}
		}
	}
}

// keptFaults reports on the kept checkpoints. The first rewritten entry is between the largest checkpoint that agrees
// and the smallest that does not.
func (v *verification) keptFaults(ctx context.Context) error {
	compared := entryTree // unless only the tree of tiles has the signed root, or all leaves
	if !v.hasRoot(entryTree) && (v.hasRoot(tileTree) || v.trees[entryTree].broken) {
		compared = tileTree
	}
	from := int64(0)             // entries that agree with a kept checkpoint of any origin; kept is sorted by size
	shared := map[string]int64{} // the same for each origin
	told := false
	var lost []*keptTree
	var lostFrom int64
	for i := range v.kept {
		k := &v.kept[i]
		k.agrees = k.each[compared]
		if k.own {
			if k.agrees != nil && *k.agrees {
				from, shared[k.origin] = k.tree.N, k.tree.N
			}
			continue
		}
		if k.tree.N > v.tree.N {
			k.agrees = new(false)
		}
		v.report.Kept = append(v.report.Kept, Kept{Name: k.name, Size: k.tree.N, Agrees: k.agrees})
		switch {
		case k.agrees == nil && k.tree.N < v.Source.First():
			v.add(Fault{Part: Uncompared, Count: 1, Detail: fmt.Sprintf(
				"%s covers %d entries and ends in front of the first event that was looked at, log index %d, so it could not be "+
					"compared: verify together with the older bundle",
				k.name, k.tree.N, v.Source.First())})
		case k.agrees == nil:
			v.add(Fault{
				Part: Rewritten, Count: 1,
				Detail: "whether the history is that of " + k.name + " can't be told: entries are missing",
			})
		case *k.agrees:
			from, shared[k.origin] = k.tree.N, k.tree.N
		case k.origin != v.report.Origin:
			if len(lost) == 0 {
				lostFrom = shared[k.origin]
			}
			lost = append(lost, k)
		case told:
		case k.tree.N > v.tree.N:
			told = true
			index := v.tree.N
			detail := fmt.Sprintf("%s covers %d entries, and the history has %d", k.name, k.tree.N, index)
			v.add(Fault{Part: Truncated, LogIndex: &index, Count: k.tree.N - index, Detail: detail})
		default:
			told = true
			f := Fault{Part: Rewritten, LogIndex: new(from), Count: 1, Detail: fmt.Sprintf(
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
	f := v.lostFault(lostFrom, lost[0], lost[len(lost)-1])
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
	if _, ok := v.Source.(*Database); !ok {
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
		now, err := read(ctx, v.Source, tileAt(0, start, max(start, v.tree.N)))
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
			raws, _ := ledger.SplitBundle(entries, int(index-start)+1) // more entries follow
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
