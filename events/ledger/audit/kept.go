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

// comparison is a checkpoint with which the history is compared, and the result.
type comparison struct {
	name       string    // "" if fromLedger
	origin     string    // of the checkpoint; may be an earlier one of the ledger
	fromLedger bool      // a checkpoint of an earlier origin that the ledger stored, not one that the auditor kept
	signed     tlog.Tree // size and root that the checkpoint signs
	agrees     *bool     // whether it agrees with the history; nil: not compared
}

// Errors of Verify.
var (
	ErrOrigin = errors.New("is of another origin")
	ErrFirst  = errors.New("the history begins elsewhere") // not at Config.First
)

// open reads the checkpoint, its signatures, and the kept checkpoints.
func (v *verification) open(ctx context.Context) error {
	note, err := v.Source.Checkpoint(ctx)
	if err != nil {
		return fmt.Errorf("read checkpoint: %w", err)
	}
	keys := v.Keys
	if len(keys) == 0 {
		if keys, err = v.Source.Keys(ctx); err != nil {
			return fmt.Errorf("read verifier keys: %w", err)
		}
	}
	c, err := ledger.ParseCheckpoint(note)
	if err != nil {
		return err
	}
	v.signed = c.Tree
	used := []string{}
	for _, key := range keys {
		ok, err := c.SignedBy(key)
		if err != nil {
			return err
		}
		if ok {
			used = append(used, key)
		}
	}
	r := v.report
	r.Origin, r.Size, r.Root = c.Origin, c.Tree.N, base64.StdEncoding.EncodeToString(c.Tree.Hash[:])
	r.FirstLogIndex, r.Unverified = v.Source.First(), v.Source.First() // log indexes begin at 0
	r.Keys, r.KeysGiven = used, len(v.Keys) > 0
	if len(used) == 0 {
		v.add(Fault{Part: Signature, Count: 1, Detail: "the checkpoint has no valid signature of one of the keys"})
	}
	if v.Policy != nil {
		if err := v.applyPolicy(c); err != nil {
			return err
		}
	}
	return v.openKept(ctx, c.Origin)
}

// openKept reads the kept checkpoints. If the source is a database, it fails with ErrOrigin for a checkpoint of an
// origin that the ledger never had.
func (v *verification) openKept(ctx context.Context, current string) error {
	for _, name := range slices.Sorted(maps.Keys(v.Kept)) {
		kept, err := ledger.ParseCheckpoint(v.Kept[name])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		v.comparisons = append(v.comparisons, comparison{name: name, origin: kept.Origin, signed: kept.Tree})
		if kept.Origin == current {
			continue
		}
		switch err := v.addFromLedger(ctx, kept.Origin, kept.Tree.N); {
		case errors.Is(err, ErrOrigin):
			return fmt.Errorf("%s %w: %s instead of %s", name, err, kept.Origin, current)
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	slices.SortStableFunc(v.comparisons, func(a, b comparison) int { return cmp.Compare(a.signed.N, b.signed.N) })
	return nil
}

// addFromLedger adds a comparison with a checkpoint of an earlier origin from the database: the newest with fewer than
// size entries. If events were lost when the origin changed, and this checkpoint agrees with the history, they come
// after it. addFromLedger fails with ErrOrigin for an unknown origin. It does nothing if the source is not a database,
// because only a database stores earlier origins.
func (v *verification) addFromLedger(ctx context.Context, origin string, size int64) error {
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
	case c.Note != nil: // there is such a checkpoint
		v.comparisons = append(v.comparisons, comparison{origin: origin, fromLedger: true, signed: c.Tree})
	}
	return nil
}

// comparesInside reports whether a comparison has a size between two sizes.
func (v *verification) comparesInside(from, to int64) bool {
	return slices.ContainsFunc(v.comparisons, func(c comparison) bool { return c.signed.N > from && c.signed.N < to })
}

// compareKept makes the comparisons, and reports the results of the kept checkpoints.
func (v *verification) compareKept() {
	// Prefer the tree with the signed root, and of two such trees that of the entries. If neither has it, use the tree of
	// the entries unless it is broken, because entries are missing.
	t := v.entryTree
	if !v.hasSignedRoot(t) && (v.hasSignedRoot(v.tileTree) || t.broken) {
		t = v.tileTree
	}
	for i := range v.comparisons {
		c := &v.comparisons[i]
		if root, reached := t.rootAt[c.signed.N]; reached {
			c.agrees = new(root == c.signed.Hash)
		}
		if c.fromLedger {
			continue
		}
		if c.signed.N > v.signed.N { // the history is truncated
			c.agrees = new(false)
		}
		v.report.Kept = append(v.report.Kept, Kept{Name: c.name, Size: c.signed.N, Agrees: c.agrees})
	}
}

// addKeptFaults adds the faults of kept checkpoints: one for each that could not be compared, one for those of the
// current origin that do not agree, and one for those of earlier origins that do not agree, whose entries were lost.
// The first entry that differs is between the largest checkpoint that agrees and the smallest that does not.
func (v *verification) addKeptFaults(ctx context.Context) error {
	agreed := int64(0)             // size of the largest checkpoint so far that agrees; comparisons are sorted by size
	agreedOf := map[string]int64{} // the same for each origin
	rewritten := false
	var lost []*comparison
	var lostFrom int64
	for i := range v.comparisons {
		switch c := &v.comparisons[i]; {
		case c.agrees != nil && *c.agrees:
			agreed, agreedOf[c.origin] = c.signed.N, c.signed.N
		case c.fromLedger: // not kept by the auditor: it only sets agreed
		case c.agrees == nil:
			v.add(v.uncomparedFault(c))
		case c.origin != v.report.Origin: // one fault for all, after the loop
			if len(lost) == 0 {
				lostFrom = agreedOf[c.origin]
			}
			lost = append(lost, c)
		case !rewritten: // the smallest one of the current origin
			rewritten = true
			f, err := v.rewrittenFault(ctx, agreed, c)
			if err != nil {
				return err
			}
			v.add(f)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	f, err := v.lostFault(ctx, lostFrom, lost[0], lost[len(lost)-1])
	if err == nil {
		v.add(f)
	}
	return err
}

// uncomparedFault reports a kept checkpoint that could not be compared.
func (v *verification) uncomparedFault(c *comparison) Fault {
	if first := v.Source.First(); c.signed.N < first {
		return Fault{Part: Uncompared, Count: 1, Detail: fmt.Sprintf(
			"%s covers %d entries and ends before the first verified event, log index %d, so it could not be compared: verify "+
				"together with the older bundle", c.name, c.signed.N, first)}
	}
	// An operator must not be able to hide a rewritten history by leaving out entries.
	return Fault{
		Part: Rewritten, Count: 1, Detail: "the history could not be compared with " + c.name + ": entries are missing",
	}
}

// rewrittenFault reports a kept checkpoint of the current origin that does not agree. agreed is the size of the largest
// checkpoint before it that agrees; 0: none.
func (v *verification) rewrittenFault(ctx context.Context, agreed int64, c *comparison) (Fault, error) {
	if c.signed.N > v.signed.N {
		return Fault{
			Part: Truncated, LogIndex: new(v.signed.N), Count: c.signed.N - v.signed.N,
			Detail: fmt.Sprintf("%s covers %d entries, and the history has %d", c.name, c.signed.N, v.signed.N),
		}, nil
	}
	f := Fault{Part: Rewritten, LogIndex: &agreed, Count: 1, Detail: fmt.Sprintf(
		"the first %d entries are not those of %s; the first that differs has a log index from %d to %d", c.signed.N, c.name,
		agreed, c.signed.N-1)}
	err := v.locate(ctx, &f, c.signed.N)
	return f, err
}

// lostFault reports entries of an earlier origin that the ledger has lost. smallest and largest are kept checkpoints
// that do not agree. agreed is the size of the largest checkpoint before them that agrees; 0: none.
func (v *verification) lostFault(ctx context.Context, agreed int64, smallest, largest *comparison) (Fault, error) {
	detail := fmt.Sprintf("%s covers %d entries of %s, and the history is signed as %s: "+
		"its first %d entries are the same, the first that is lost has a log index from %d to %d",
		largest.name, largest.signed.N, largest.origin, v.report.Origin, agreed, agreed, smallest.signed.N-1)
	if _, ok := v.Source.(*Database); !ok {
		detail += "; or it is a checkpoint of another ledger"
	}
	f := Fault{Part: Lost, LogIndex: &agreed, Detail: detail}
	err := v.locate(ctx, &f, smallest.signed.N)
	f.Count = largest.signed.N - *f.LogIndex
	return f, err
}

// locate replaces the log index and the detail of a fault with those of the first entry below size that differs from
// that of the older bundle. Without such a bundle or entry it changes nothing.
func (v *verification) locate(ctx context.Context, f *Fault, size int64) error {
	if v.Older == nil {
		return nil
	}
	for start := v.Older.First(); start < size; start += ledger.TileWidth {
		old, err := read(ctx, v.Older, tileAt(0, start, size))
		if err != nil {
			return err
		}
		current, err := read(ctx, v.Source, tileAt(0, start, max(start, v.signed.N)))
		if err != nil {
			return err
		}
		offset, differs := firstDifference(old, current)
		if !differs {
			continue
		}
		f.LogIndex, f.Detail = new(start+int64(offset)), "the entry is not that of the older bundle"
		entries, err := read(ctx, v.Older, tileAt(entryBundles, start, size))
		if err != nil {
			return err
		}
		raws, _ := ledger.SplitBundle(entries, offset+1) // if more entries follow, it fails and returns the first ones
		if offset < len(raws) {
			if e, err := ledger.ParseEntry(raws[offset]); err == nil {
				f.ID, f.Source = e.ID, e.Source
			}
		}
		return nil
	}
	return nil
}

// firstDifference returns the index of the first hash of old that is missing from current or differs there.
func firstDifference(old, current []byte) (index int, differs bool) {
	for start := 0; start < len(old); start += tlog.HashSize {
		end := start + tlog.HashSize
		if end > len(current) || !bytes.Equal(old[start:end], current[start:end]) {
			return start / tlog.HashSize, true
		}
	}
	return 0, false
}
