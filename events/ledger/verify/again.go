package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"novelgate/events/ledger"
	"novelgate/events/ledger/bundle"
)

// duplicates finds pairs of source and id that occur twice. It reads the entries again to exclude pairs that only have
// the same hash.
func (v *verification) duplicates(ctx context.Context) error {
	slices.Sort(v.names)
	suspects := map[uint64]bool{}
	for i := 1; i < len(v.names); i++ {
		if v.names[i] == v.names[i-1] {
			suspects[v.names[i]] = true
		}
	}
	v.names = nil
	if len(suspects) == 0 {
		return nil
	}
	seen := map[[2]string]int64{}
	return v.entries(ctx, func(index int64, e *ledger.Entry) {
		if !suspects[v.nameOf(e.Source, e.ID)] {
			return
		}
		name := [2]string{e.Source, e.ID}
		if first, ok := seen[name]; ok {
			v.add(Fault{
				Part: Duplicate, LogIndex: &index, ID: e.ID, Source: e.Source, Count: 1,
				Detail: fmt.Sprintf("log index %d has this id and source already", first),
			})
			return
		}
		seen[name] = index
	})
}

// swaps finds the replaced events that are swapped with each other.
func (v *verification) swaps(ctx context.Context) error {
	wanted := map[[2]string]*Fault{}
	for i := range v.report.Faults {
		if f := &v.report.Faults[i]; f.Part == Replaced {
			wanted[[2]string{f.foundSource, f.foundID}] = f
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	home := map[*Fault]int64{} // log index where the found event belongs
	err := v.entries(ctx, func(index int64, e *ledger.Entry) {
		if f := wanted[[2]string{e.Source, e.ID}]; f != nil {
			home[f] = index
		}
	})
	if err != nil {
		return err
	}
	for f, index := range home {
		first := index - index%bundle.EventsPerFile
		list, err := v.source.Events(ctx, first, bundle.Width(first, v.tree.N), v.tree.N)
		// A missing or damaged entry is a separate fault, not a swap.
		if err != nil && !errors.Is(err, ledger.ErrNotFound) && !errors.Is(err, ledger.ErrDamaged) {
			return err //nolint:wrapcheck // its text is sufficient
		}
		f.Detail = fmt.Sprintf("the event of log index %d is in its place", index)
		for i := range list {
			if list[i].LogIndex == index && list[i].ID == f.ID && list[i].Source == f.Source {
				f.Part, f.Detail = Swapped, fmt.Sprintf("it has changed places with the event of log index %d", index)
			}
		}
	}
	return nil
}

// entries calls each with every readable entry.
func (v *verification) entries(ctx context.Context, each func(index int64, e *ledger.Entry)) error {
	for start := v.source.First(); start < v.tree.N; start += ledger.TileWidth {
		raws, err := readEntries(ctx, v.source, start/ledger.TileWidth, int(min(ledger.TileWidth, v.tree.N-start)))
		if err != nil {
			return err
		}
		for i, raw := range raws {
			if e, err := ledger.ParseEntry(raw); err == nil {
				each(start+int64(i), &e)
			}
		}
	}
	return nil
}
