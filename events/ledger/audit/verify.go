package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"novelgate/events/ledger"
)

// Config configures a verification.
type Config struct {
	// Source is the history to verify. Required.
	Source Source
	// Keys are the auditor's verifier keys. One of them must have signed the checkpoint. Default: the keys of the source,
	// which prove only that the source is consistent.
	Keys []string
	// Policy demands signatures of logs and cosignatures of witnesses. Default: none.
	Policy *Policy
	// Kept are checkpoints that the auditor has kept, by a name for the report. The history must agree with them.
	Kept map[string][]byte
	// Older is a bundle up to a checkpoint of Kept, with which a rewritten entry is located. Default: only the checkpoint
	// with another history is reported.
	Older Source
	// First is the log index at which the verification starts. It is not taken from the bundle, which could start after
	// tampered events. Default: 0, everything.
	First int64
	// Workers is the number of chunks that are read concurrently. Default: 2.
	Workers int
	// Now is the clock. Required.
	Now func() time.Time
	// Progress is called as the work proceeds. Default: none.
	Progress func(done, total int64)
}

// MaxFaults limits the faults in a report. FaultCount has all.
const MaxFaults = 20

// Report is the result of a verification.
type Report struct {
	OK            bool     `json:"ok"`
	Origin        string   `json:"origin"`
	Size          int64    `json:"size"`          // entries that the checkpoint covers
	Root          string   `json:"root"`          // signed root, base64
	Keys          []string `json:"keys"`          // keys that signed it
	KeysGiven     bool     `json:"keysGiven"`     // by the auditor, not read from the source
	CosignedBy    []string `json:"cosignedBy"`    // keys of the witnesses of the policy that cosigned it
	FirstLogIndex int64    `json:"firstLogIndex"` // entries before it were not verified
	Unverified    int64    `json:"unverified"`    // number of entries before FirstLogIndex
	Entries       int64    `json:"entries"`       // entries from FirstLogIndex on
	Events        int64    `json:"events"`        // events compared with their entries
	EntriesOnly   bool     `json:"entriesOnly"`   // the source has no events
	Erased        int64    `json:"erased"`        // of Events: without their personal part
	// erased events without a later recorded erasure, and the log index of the first one; null: none
	ErasedWithoutRecord      int64  `json:"erasedWithoutRecord"`
	FirstErasedWithoutRecord *int64 `json:"firstErasedWithoutRecord"`

	Streams    int     `json:"streams"`
	Kept       []Kept  `json:"kept"`
	Seconds    float64 `json:"seconds"`
	FaultCount int64   `json:"faultCount"` // the events of each fault are counted
	// the first MaxFaults: signatures, then events, entries and tiles in log order (upper tiles in the chunk where they
	// end), then duplicates, roots and Kept
	Faults []Fault `json:"faults"`
}

// Kept is the result for a kept checkpoint.
type Kept struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	Agrees *bool  `json:"agrees"` // null: not comparable, see the fault
}

// verification is one run.
type verification struct {
	Config
	signed      tlog.Tree // size and root that the checkpoint signs
	seed        maphash.Seed
	report      *Report
	comparisons []comparison // sorted by size

	// The verification builds a tree from the entries and another one from the lowest hash tiles. Where they differ, the
	// one with the signed root shows what was changed.
	entryTree, tileTree *tree

	tilesDiffer bool                // entries and hash tiles differ, so the upper tiles may not match
	versions    map[[16]byte]uint32 // newest version of each stream
	erasures    erasures
	identities  []uint64 // identityOf each event
}

// Verify verifies the history. Faults of the history are in the report; an error means that the verification could not
// be completed.
func Verify(ctx context.Context, config Config) (*Report, error) {
	begun := config.Now()
	v := &verification{
		Config: config, seed: maphash.MakeSeed(),
		report:    &Report{CosignedBy: []string{}, Kept: []Kept{}, Faults: []Fault{}},
		entryTree: newTree(), tileTree: newTree(),
		versions: map[[16]byte]uint32{}, erasures: newErasures(),
	}
	if first := v.Source.First(); first != v.First {
		return nil, fmt.Errorf("%w: with log index %d, and it was to be verified from log index %d on", ErrFirst, first,
			v.First)
	}
	if err := v.open(ctx); err != nil {
		return nil, err
	}
	if err := v.readPrefix(ctx); err != nil {
		return nil, err
	}
	if err := v.checkChunks(ctx); err != nil {
		return nil, err
	}
	if err := v.end(ctx); err != nil {
		return nil, err
	}
	r := v.report
	r.OK = r.FaultCount == 0
	r.Streams = len(v.versions)
	if u := v.erasures.unrecorded(); u.count > 0 {
		r.ErasedWithoutRecord, r.FirstErasedWithoutRecord = u.count, &u.first
	}
	r.Seconds = config.Now().Sub(begun).Seconds()
	return r, nil
}

// checkChunks checks chunks concurrently and joins them in order: the channel of a chunk's result is queued before the
// check starts.
func (v *verification) checkChunks(ctx context.Context) error {
	workers := cmp.Or(v.Workers, defaultWorkers)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers + 1)
	results := make(chan chan *chunk, workers)
	group.Go(func() error {
		defer close(results)
		for first := v.Source.First(); first < v.signed.N; first += eventsPerFile {
			result := make(chan *chunk, 1)
			select {
			case results <- result:
			case <-ctx.Done():
				return fmt.Errorf("verify: %w", ctx.Err())
			}
			group.Go(func() error {
				defer close(result)
				c, err := v.check(ctx, first)
				if err == nil {
					result <- c
				}
				return err
			})
		}
		return nil
	})
	var joinErr error
	for result := range results {
		c, ok := <-result
		if !ok || joinErr != nil {
			continue // the chunk failed, or an earlier one
		}
		if joinErr = v.join(ctx, c); joinErr != nil {
			cancel()
		}
	}
	return errors.Join(joinErr, group.Wait())
}

// join appends a chunk to the earlier ones: it grows the trees, checks stream versions, and reports the faults.
func (v *verification) join(ctx context.Context, c *chunk) error {
	if err := v.grow(ctx, c); err != nil {
		return err
	}
	for _, e := range c.entries {
		before, known := v.versions[e.StreamID]
		// After a missing or changed entry, a gap is not a separate fault. In a history without its beginning, a stream
		// may have begun before.
		if e.StreamVersion != before+1 && !v.tilesDiffer && !v.entryTree.broken && (known || v.Source.First() == 0) {
			c.fault(Fault{Part: Stream, Detail: fmt.Sprintf("version %d of stream %x follows %d", e.StreamVersion,
				e.StreamID[:], before)}, e.index, nil)
		}
		v.versions[e.StreamID] = e.StreamVersion
		v.identities = append(v.identities, v.identityOf(e.Entry))
	}
	v.report.Entries += c.end - c.first
	v.report.Events += int64(c.events)
	v.report.EntriesOnly = v.report.EntriesOnly || c.noEvents
	v.report.Erased += int64(c.erased)
	for _, x := range c.erasures {
		v.erasures.add(x)
	}
	slices.SortStableFunc(c.faults, func(a, b Fault) int { return cmp.Compare(*a.LogIndex, *b.LogIndex) })
	for i := range c.faults {
		v.add(c.faults[i])
	}
	if v.Progress != nil {
		v.Progress(v.report.Entries, v.signed.N-v.Source.First())
	}
	return nil
}

// add adds a fault to the report. Consecutive missing events are one fault.
func (v *verification) add(f Fault) {
	r := v.report
	if n := len(r.Faults); f.Part == Missing && n > 0 {
		if last := &r.Faults[n-1]; last.Part == Missing && *last.LogIndex+last.Count == *f.LogIndex {
			r.FaultCount += f.Count
			last.Count++
			last.Detail = fmt.Sprintf("the ledger has the leaves of this event and the next %d, but the events are missing",
				last.Count-1)
			return
		}
	}
	r.Add(f)
}

// Add adds a fault of another check, such as a comparison of projections.
func (r *Report) Add(f Fault) {
	r.OK = false
	if r.FaultCount += f.Count; len(r.Faults) < MaxFaults {
		r.Faults = append(r.Faults, f)
	}
}

// end compares roots, finds duplicates, and completes the faults.
func (v *verification) end(ctx context.Context) error {
	last := &chunk{first: v.signed.N, end: v.signed.N} // without entries: for the faults of the partial tiles
	if err := v.compareTiles(ctx, last, v.signed.N-1, 1); err != nil {
		return err
	}
	for i := range last.faults {
		v.add(last.faults[i])
	}
	if err := v.findDuplicates(ctx); err != nil {
		return err
	}
	if !v.hasSignedRoot(v.entryTree) && !v.hasSignedRoot(v.tileTree) {
		v.add(Fault{
			Part: Root, Count: 1, Detail: fmt.Sprintf("the root of the %d entries is not the signed one", v.signed.N),
		})
	}
	v.refineFaults()
	v.compareKept()
	return v.addKeptFaults(ctx)
}

// refineFaults completes the faults in the report with what only the whole history shows.
func (v *verification) refineFaults() {
	for i := range v.report.Faults {
		switch f := &v.report.Faults[i]; {
		case f.undecided:
			v.decide(f)
		case f.Part == Missing && *f.LogIndex+f.Count == v.signed.N:
			f.Part, f.Detail = Truncated, fmt.Sprintf("the history ends here, and the ledger has %d entries more", f.Count)
		}
	}
	findMoved(v.report.Faults)
}

// decide completes the fault of an entry that differs from its hash tile. If one of the two trees has the signed root,
// the other one was changed.
func (v *verification) decide(f *Fault) {
	switch {
	case v.hasSignedRoot(v.entryTree) && f.matchesTile:
		f.Part, f.Detail = Event, "the event is not the one that was sealed, and its hash tile was changed with it"
	case v.hasSignedRoot(v.entryTree):
		f.Part, f.Detail = Tile, "the lowest hash tile does not have the hash of the entry"
		f.sealed = tlog.Hash{} // that of the tile is not the sealed one
	case !v.hasSignedRoot(v.tileTree):
		f.Detail += "; either it or the tile was changed"
	}
}

// findMoved completes the faults whose event was sealed at the log index of another fault.
func findMoved(faults []Fault) {
	bySealed := map[tlog.Hash]*Fault{}
	for i := range faults {
		if f := &faults[i]; f.sealed != (tlog.Hash{}) {
			bySealed[f.sealed] = f
		}
	}
	for _, f := range bySealed {
		switch other := bySealed[f.found]; {
		case other == nil:
		case other.found == f.sealed:
			f.Part, f.Detail = Swapped, fmt.Sprintf("it has changed places with the event of log index %d", *other.LogIndex)
		default:
			f.Part, f.Detail = Replaced, fmt.Sprintf("the event of log index %d is in its place", *other.LogIndex)
		}
	}
}

// identityOf returns a hash of the identity of an event, with a seed of this run.
func (v *verification) identityOf(e *ledger.Entry) uint64 {
	return maphash.Comparable(v.seed, [2]string{e.Source, e.ID})
}

// findDuplicates finds pairs of source and id that occur twice. It reads the history again to exclude different pairs
// with the same hash.
func (v *verification) findDuplicates(ctx context.Context) error {
	slices.Sort(v.identities)
	suspects := map[uint64]bool{}
	for i := 1; i < len(v.identities); i++ {
		if v.identities[i] == v.identities[i-1] {
			suspects[v.identities[i]] = true
		}
	}
	v.identities = nil
	if len(suspects) == 0 {
		return nil
	}
	seen := map[[2]string]int64{}
	for first := v.Source.First(); first < v.signed.N; first += eventsPerFile {
		c, err := v.check(ctx, first)
		if err != nil {
			return err
		}
		for _, e := range c.entries {
			name := [2]string{e.Source, e.ID}
			if before, ok := seen[name]; ok {
				v.add(Fault{
					Part: Duplicate, LogIndex: &e.index, ID: e.ID, Source: e.Source, Count: 1,
					Detail: fmt.Sprintf("log index %d has this id and source already", before),
				})
			} else if suspects[v.identityOf(e.Entry)] {
				seen[name] = e.index
			}
		}
	}
	return nil
}
