package audit_test

import (
	"encoding/base64"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/events/ledger/audit"
	"novelgate/events/ledger/ledgertest"
	"novelgate/internal/testdb"
)

// TestSoundHistory verifies histories of many sizes, in the database and in a bundle, with kept checkpoints of all
// smaller sizes.
func TestSoundHistory(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	kept := map[string][]byte{}
	for _, n := range []int{1, 255, 1, 3839, 1, 4095, 5000} {
		l.Append(n)
		checkpoint := l.Latest()
		kept[string(checkpoint.Note)] = checkpoint.Note
		if n > 4000 || n < 5 {
			for name, source := range sources(t, l) {
				r := run(t, audit.Config{Source: source, Keys: l.Keys, Kept: kept})
				wantFaults(t, name, r, "", false)
				if r.Events != checkpoint.Tree.N || r.Entries != r.Events || len(r.Kept) != len(kept) || !r.KeysGiven ||
					r.Erased != 0 {
					t.Errorf("%s of %d: %+v", name, checkpoint.Tree.N, r)
				}
			}
		}
	}
}

// TestContinuedBundles: a bundle that continues another one verifies alone and together with it.
func TestContinuedBundles(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	l := ledgertest.New(t)
	const size = 5000
	const begin = size / 4096 * 4096 // of the chunk in which the older one ends
	l.Append(size)
	older := export(t, l, 0)
	l.Append(9000)
	newer := export(t, l, size)
	opened := bundles(t, newer)
	note := testdb.Must(bundles(t, older).Checkpoint(t.Context()))(t)
	if opened.First() != begin {
		t.Fatalf("it begins with %d", opened.First())
	}
	kept := map[string][]byte{"older": note}
	agrees := cmp.Diff([]audit.Kept{{Name: "older", Size: size, Agrees: new(true)}},
		run(t, audit.Config{Source: opened, First: begin, Kept: kept}).Kept)
	if agrees != "" {
		t.Error(agrees)
	}
	r := run(t, audit.Config{Source: opened, First: begin})
	wantFaults(t, "alone", r, "", false)
	if r.Events != size+9000-begin || r.FirstLogIndex != begin || r.Unverified != begin {
		t.Errorf("alone: %+v", r)
	}
	r = run(t, audit.Config{Source: bundles(t, older, newer), Kept: kept})
	wantFaults(t, "together", r, "", false)
	if r.Events != size+9000 || r.FirstLogIndex != 0 || r.Unverified != 0 {
		t.Errorf("together: %+v", r)
	}
	r = run(t, audit.Config{Source: opened, First: begin, Kept: kept, Older: bundles(t, older)})
	wantFaults(t, "against the older one", r, "", false)
	if _, err := audit.OpenBundles([]string{newer, older}); err == nil {
		t.Error("bundles in the wrong order are taken")
	}
}

// TestKeptInFrontOfTheFirstEvent: a kept checkpoint that ends before the first event of a bundle cannot be compared,
// genuine or forged, so it does not agree. With the older bundle it is compared.
func TestKeptInFrontOfTheFirstEvent(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	l.Append(4000)
	genuine := l.Latest()
	l.Append(1000)
	older := export(t, l, 0)
	l.Append(1000)
	newer := export(t, l, 4096)
	forged := []byte("ledger.example/test\n4000\n" + base64.StdEncoding.EncodeToString(make([]byte, 32)) +
		"\n\n— ledger.example/test AAAAAAAA\n")
	nothing := []byte("ledger.example/test\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n\n— " +
		"ledger.example/test AAAAAAAA\n")
	for name, test := range map[string]struct {
		dirs   []string
		note   []byte
		want   string
		agrees *bool
	}{
		"genuine":                  {[]string{newer}, genuine.Note, "uncompared", nil},
		"forged":                   {[]string{newer}, forged, "uncompared", nil},
		"genuine, with all events": {[]string{older, newer}, genuine.Note, "", new(true)},
		"forged, with all events":  {[]string{older, newer}, forged, "rewritten@0", new(false)},
		"of no entries":            {[]string{newer}, nothing, "", new(true)},
	} {
		source := bundles(t, test.dirs...)
		r := run(t, audit.Config{
			Source: source, First: source.First(), Keys: l.Keys, Kept: map[string][]byte{"kept": test.note},
		})
		wantFaults(t, name, r, test.want, false)
		if diff := cmp.Diff(test.agrees, r.Kept[0].Agrees); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
	}
}

// TestSignature: a signature of another key does not count, and a checkpoint needs one.
func TestSignature(t *testing.T) {
	t.Parallel()
	l, other := ledgertest.New(t), ledgertest.New(t)
	l.Append(10)
	r := run(t, audit.Config{Source: audit.NewDatabase(l.Pool), Keys: other.Keys})
	wantFaults(t, "another key", r, "signature", false)
	r = run(t, audit.Config{Source: audit.NewDatabase(l.Pool), Keys: append(other.Keys, l.Keys...)})
	wantFaults(t, "one of two keys", r, "", false)
	if diff := cmp.Diff(l.Keys, r.Keys); diff != "" {
		t.Error(diff)
	}
}
