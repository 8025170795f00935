package ledger_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
	"novelgate/events/ledger/ledgertest"
	"novelgate/internal/testdb"
)

// askWitness returns a Witness that asks w.
func askWitness(t testing.TB, l *ledgertest.Ledger, w *ledgertest.Witness, metrics *ledger.Metrics) *ledger.Witness {
	t.Helper()
	const quorum = 2
	return testdb.Must(ledger.NewWitness(ledger.WitnessConfig{
		Pool: l.Pool, Origin: ledgertest.Origin, URL: w.URL, VerifierKey: w.VerifierKey, Quorum: quorum,
		Interval: time.Millisecond, Metrics: metrics, Logger: slog.New(slog.DiscardHandler),
	}))(t)
}

// ask asks witnesses once each; they must cosign.
func ask(t testing.TB, l *ledgertest.Ledger, witnesses ...*ledgertest.Witness) {
	t.Helper()
	for _, w := range witnesses {
		testdb.NoError(t, askWitness(t, l, w, nil).Ask(t.Context()))
	}
}

func newWitness(t testing.TB, l *ledgertest.Ledger, name string) *ledgertest.Witness {
	t.Helper()
	return ledgertest.NewWitness(t, name, ledgertest.Origin, l.Keys...)
}

// cosigners returns the witnesses that cosigned the served checkpoint, and its size.
func cosigners(t testing.TB, l *ledgertest.Ledger, witnesses ...*ledgertest.Witness) (names string, size int64) {
	t.Helper()
	c := l.Latest()
	if signed, err := c.SignedBy(l.Keys[0]); !signed || err != nil {
		t.Errorf("the ledger has not signed: %v\n%s", err, c.Note)
	}
	for _, w := range witnesses {
		verifier := testdb.Must(ledger.NewWitnessVerifier(w.VerifierKey))(t)
		if opened, err := note.Open(c.Note, note.VerifierList(verifier)); err == nil {
			names += opened.Sigs[0].Name + " "
		}
	}
	return strings.TrimSpace(names), c.Tree.N
}

func wantCosigned(t testing.TB, l *ledgertest.Ledger, want string, size int64, witnesses ...*ledgertest.Witness) {
	t.Helper()
	if names, n := cosigners(t, l, witnesses...); names != want || n != size {
		t.Errorf("the checkpoint of %d entries is cosigned by %q, want %d, %q", n, names, size, want)
	}
}

// TestWitnesses: two of three cosign while the third is down. Later it catches up.
func TestWitnesses(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	l.Append(300)
	metrics := ledger.NewMetrics()
	one, two, three := newWitness(t, l, "one"), newWitness(t, l, "two"), newWitness(t, l, "three")
	three.Away(true)
	for _, w := range []*ledgertest.Witness{one, two, three} {
		testdb.Background(t, askWitness(t, l, w, metrics).Run)
	}
	awaitCosigned := func(want string, size int64) {
		t.Helper()
		testdb.Eventually(t, want+" cosign", func() bool {
			names, n := cosigners(t, l, one, two, three)
			return names == want && n == size
		})
	}
	awaitCosigned("one two", 300)
	l.Append(1000)
	awaitCosigned("one two", 1300)
	three.Away(false)
	awaitCosigned("one two three", 1300)
	// The witness was restored from a backup: its answer has its size.
	three.SetTree(ledgertest.Origin, tlog.Tree{})
	l.Append(1)
	awaitCosigned("one two three", 1301)
	if diff := cmp.Diff([]int64{0, 300, 1300}, one.Olds()); diff != "" {
		t.Errorf("old sizes (-want +got):\n%s", diff)
	}
	testdb.Eventually(t, "the metrics of the third one have its size and failures, and no refusal", func() bool {
		values, of := testdb.Metrics(t, metrics), " "+three.URL.String()
		return values["novelgate_ledger_witness_size_entries"+of] == 1301 &&
			values["novelgate_ledger_witness_failures_total"+of] > 0 && values["novelgate_ledger_witness_refused"+of] == 0
	})
}

// TestWitnessRefusesFork: a witness that has cosigned one history refuses any other, longer or shorter.
func TestWitnessRefusesFork(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	l.Append(5)
	w := newWitness(t, l, "one")
	ask(t, l, w)
	backup := l.Backup()
	l.Append(7)
	ask(t, l, w)
	wantCosigned(t, l, "one", 12, w)
	honest := w.Tree(ledgertest.Origin)
	backup.Tamper(`DELETE FROM ledger_cosignatures; DELETE FROM ledger_checkpoints`)
	backup.Forget()
	for _, n := range []int{2, 5, 9} { // a shorter tree, one of the same size, and a longer one
		backup.Append(n)
		metrics := ledger.NewMetrics()
		asking := askWitness(t, backup, w, metrics)
		if err := asking.Ask(t.Context()); !errors.Is(err, ledger.ErrOtherHistory) {
			t.Errorf("%d entries of another history: %v", backup.Latest().Tree.N, err)
		}
		stop := testdb.Background(t, asking.Run)
		testdb.Eventually(t, "the refusal is a metric", func() bool {
			return testdb.Metric(t, metrics, "novelgate_ledger_witness_refused "+w.URL.String()) == 1
		})
		stop()
		wantCosigned(t, backup, "", backup.Latest().Tree.N, w)
	}
	if now := w.Tree(ledgertest.Origin); now != honest {
		t.Errorf("the witness has cosigned %v, and %v before", now, honest)
	}
}

// TestWitnessIsAhead: a replica with an older checkpoint than the witness has cosigned leaves it, whether or not the
// database has that cosignature.
func TestWitnessIsAhead(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	w := newWitness(t, l, "one")
	target := testdb.Must(ledger.NewWitness(ledger.WitnessConfig{
		Pool: l.Pool, URL: w.URL, VerifierKey: w.VerifierKey, Quorum: 1,
	}))(t)
	l.Append(3)
	older := l.Latest()
	l.Append(2)
	testdb.NoError(t, target.Take(t.Context(), l.Latest()))
	if err := target.Take(t.Context(), older); err != nil {
		t.Errorf("the database has the newer cosignature: %v", err)
	}
	l.Tamper(`DELETE FROM ledger_cosignatures`)
	if err := target.Take(t.Context(), older); err != nil {
		t.Errorf("the witness has the newer checkpoint: %v", err)
	}
	if n := count(t, l.Pool, "ledger_cosignatures"); n != 0 {
		t.Errorf("%d cosignatures on the older checkpoint are kept", n)
	}
}

// TestServedCheckpoint: for a few seconds, a checkpoint with a quorum is served instead of a newer one without.
func TestServedCheckpoint(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	one, two := newWitness(t, l, "one"), newWitness(t, l, "two")
	l.Append(3)
	ask(t, l, one)
	wantCosigned(t, l, "one", 3, one, two)
	l.Append(1) // the previous one has no quorum
	wantCosigned(t, l, "", 4, one, two)
	ask(t, l, one, two)
	wantCosigned(t, l, "one two", 4, one, two)
	l.Append(1)
	// A busy machine may need the few seconds for the next steps.
	l.Tamper(`UPDATE ledger_checkpoints SET signed_at = signed_at + interval '1 minute' WHERE tree_size = 5`)
	ask(t, l, one)
	wantCosigned(t, l, "one two", 4, one, two)
	proof, err := ledger.NewStore(l.Pool).Proof(t.Context(), 2)
	if err != nil || !strings.Contains(string(proof), "— two ") {
		t.Errorf("the proof has no cosignature: %v\n%s", err, proof)
	}
	l.Tamper(`UPDATE ledger_checkpoints SET signed_at = signed_at - interval '2 minutes'`)
	wantCosigned(t, l, "one", 5, one, two)
	ask(t, l, two)
	wantCosigned(t, l, "one two", 5, one, two)
}

// TestOldCosignaturesArePruned: those on the 16 newest checkpoints and the newest one of each witness stay, at each
// origin. The database refuses to delete them.
func TestOldCosignaturesArePruned(t *testing.T) {
	t.Parallel()
	const served, older = 16, 5
	l := ledgertest.New(t)
	one, gone := newWitness(t, l, "one"), newWitness(t, l, "gone")
	for range older {
		l.Append(1)
		ask(t, l, one, gone)
	}
	for range served {
		l.Append(1)
		ask(t, l, one)
	}
	kept := func() (list []string) {
		t.Helper()
		return testdb.Values[string](t, l.Pool,
			`SELECT concat_ws(' ', tree_size, split_part(witness, '+', 1)) FROM ledger_cosignatures ORDER BY tree_size`)
	}
	want := []string{"5 gone"}
	for size := older + 1; size <= older+served; size++ {
		want = append(want, fmt.Sprint(size, " one"))
	}
	if diff := cmp.Diff(want, kept()); diff != "" {
		t.Errorf("cosignatures (-want +got):\n%s", diff)
	}
	wantCosigned(t, l, "one", older+served, one, gone)

	for _, needed := range []string{"tree_size = 5", "tree_size = 6", "tree_size = 21", "true"} {
		_, err := l.Pool.Exec(t.Context(), `DELETE FROM ledger_cosignatures WHERE `+needed)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "23001" {
			t.Errorf("deleting where %s: %v", needed, err)
		}
	}
	l.Append(1)
	ask(t, l, gone)
	want = append(want[1:], "22 gone")
	if diff := cmp.Diff(want[1:], kept()); diff != "" {
		t.Errorf("later cosignatures (-want +got):\n%s", diff)
	}
	// The witness knows how to continue.
	l.Append(1)
	ask(t, l, one)
	wantCosigned(t, l, "one", older+served+2, one, gone)
	if olds := one.Olds(); olds[len(olds)-1] != older+served {
		t.Errorf("old sizes %v", olds)
	}
}

// TestWitnessAnswers: only cosignatures of the witness on the checkpoint are stored.
func TestWitnessAnswers(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	l.Append(3)
	w, other := newWitness(t, l, "one"), newWitness(t, l, "two")
	text := l.Latest().Body()
	for name, tamper := range map[string]func(string) string{
		"empty":           func(string) string { return "" },
		"no lines":        func(string) string { return "thanks\n" },
		"another witness": func(string) string { return other.Cosign(text) },
		"another text":    func(string) string { return w.Cosign("something else\n") },
		// The whole note would be the signed text.
		"empty line": func(string) string {
			longer := string(l.Latest().Note) + "more\n"
			return "more\n\n" + w.Cosign(longer)
		},
	} {
		w.Tamper(tamper)
		if err := askWitness(t, l, w, nil).Ask(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
		if n := count(t, l.Pool, "ledger_cosignatures"); n != 0 {
			t.Fatalf("%s: %d cosignatures are kept", name, n)
		}
	}
	w.Tamper(func(lines string) string { return other.Cosign(text) + lines })
	ask(t, l, w)
	wantCosigned(t, l, "one", 3, w, other)
}

func TestWitnessKeys(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	key := newWitness(t, l, "one").VerifierKey
	if _, err := ledger.NewWitnessVerifier(key); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{"", "one", l.Keys[0], "another" + key, strings.Replace(key, "+", "+0", 1)} {
		if _, err := ledger.NewWitnessVerifier(wrong); !errors.Is(err, ledger.ErrKey) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
