package audit_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"

	"novelgate/events/ledger"
	"novelgate/events/ledger/audit"
	"novelgate/events/ledger/ledgertest"
	"novelgate/internal/testdb"
)

// cosign gets cosignatures of witnesses.
func cosign(t testing.TB, l *ledgertest.Ledger, witnesses ...*ledgertest.Witness) {
	t.Helper()
	for _, w := range witnesses {
		target := testdb.Must(ledger.NewWitness(ledger.WitnessConfig{
			Pool: l.Pool, Origin: ledgertest.Origin, URL: w.URL, VerifierKey: w.VerifierKey, Quorum: len(witnesses),
		}))(t)
		testdb.NoError(t, target.Ask(t.Context()))
	}
}

// TestPolicy: two of three witnesses have cosigned. Bundle and database verify when this reaches the quorum.
func TestPolicy(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	l.Append(300)
	var all []*ledgertest.Witness
	defined := "# of the ledger\n\nlog " + l.Keys[0] + " https://ledger.example\n"
	for i, name := range []string{"a", "b", "c"} {
		w := ledgertest.NewWitness(t, "witness.example/"+name, ledgertest.Origin, l.Keys...)
		all = append(all, w)
		defined += fmt.Sprintf("witness %s\t%s%s\n", name, w.VerifierKey, []string{"", " " + w.URL.String()}[i%2])
	}
	cosign(t, l, all[:2]...)
	_, stranger, err := note.GenerateKey(nil, ledgertest.Origin)
	if err != nil {
		t.Fatal(err)
	}
	both := sources(t, l)
	const malformed = "malformed"
	for quorum, want := range map[string]string{ // the part with a fault, if any
		"quorum none\n":                                          "",
		"quorum b\n":                                             "",
		"quorum c\n":                                             "quorum",
		"group g 2 a b c\nquorum g\n":                            "",
		"group g any a b c\nquorum g\n":                          "",
		"group g all a b c\nquorum g\n":                          "quorum",
		"group g 3 a b c\nquorum g":                              "quorum",
		"group g all a b\n\tquorum \t g\n":                       "",
		"group x any b c\ngroup g all a x\nquorum g\n":           "",
		"group x all b c\ngroup g all a x\nquorum g\n":           "quorum",
		"group x all b c\ngroup g any a x\nquorum g\n":           "",
		"group x all b c\ngroup g any a x\nquorum x # of many\n": malformed,
	} {
		policy, err := audit.ParsePolicy([]byte(defined + quorum))
		if want == malformed {
			if !errors.Is(err, audit.ErrPolicy) {
				t.Errorf("%s: %v", quorum, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", quorum, err)
			continue
		}
		for name, source := range both {
			r := run(t, audit.Config{Source: source, Policy: policy, Keys: l.Keys, Now: time.Now})
			wantFaults(t, name+" "+quorum, r, want, false)
			if diff := cmp.Diff([]string{all[0].VerifierKey, all[1].VerifierKey}, r.CosignedBy); diff != "" {
				t.Errorf("cosigned by (-want +got):\n%s", diff)
			}
		}
	}
	policy := testdb.Must(audit.ParsePolicy([]byte("log " + stranger + "\nquorum none\n")))(t)
	wantFaults(t, "another log", run(t, audit.Config{Source: both["bundle"], Policy: policy}), "signature", false)
}

// TestPolicyRefusals: policies that C2SP tlog-policy forbids, because most would demand less than they seem to.
func TestPolicyRefusals(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	key := func(name string) string {
		return ledgertest.NewWitness(t, name, ledgertest.Origin, l.Keys...).VerifierKey
	}
	a, b := key("a"), key("b")
	defined := "witness a " + a + "\nwitness b " + b + "\n"
	for name, text := range map[string]string{
		"nothing":              "",
		"no quorum":            defined,
		"two quorums":          defined + "quorum a\nquorum b\n",
		"unknown quorum":       defined + "quorum c\n",
		"quorum before":        "quorum a\n" + defined,
		"unknown member":       defined + "group g any a c\nquorum g\n",
		"member none":          defined + "group g any a none\nquorum g\n",
		"named none":           "witness none " + a + "\nquorum none\n",
		"no members":           defined + "group g all\nquorum g\n",
		"threshold 0":          defined + "group g 0 a b\nquorum g\n",
		"threshold -1":         defined + "group g -1 a b\nquorum g\n",
		"threshold 3":          defined + "group g 3 a b\nquorum g\n",
		"threshold most":       defined + "group g most a b\nquorum g\n",
		"member twice":         defined + "group g 2 a a\nquorum g\n",
		"member of two groups": defined + "group g any a b\ngroup h any b\nquorum g\n",
		"name twice":           defined + "group a any b\nquorum a\n",
		"key twice":            defined + "witness c " + a + "\nquorum a\n",
		"log twice":            strings.Repeat("log "+l.Keys[0]+"\n", 2) + "quorum none\n",
		"key of a log":         "witness a " + l.Keys[0] + "\nquorum a\n",
		"key of a witness":     "log " + a + "\nquorum none\n",
		"no key":               "witness a\nquorum none\n",
		"unknown line":         "mirror a " + a + "\nquorum none\n",
		"carriage return":      "quorum none\r\n",
		"too many words":       "quorum none at all\n",
	} {
		if _, err := audit.ParsePolicy([]byte(text)); !errors.Is(err, audit.ErrPolicy) {
			t.Errorf("%s: %v", name, err)
		}
	}
	policy, err := audit.ParsePolicy([]byte(defined + "quorum a"))
	if err != nil || len(policy.Logs) != 0 {
		t.Errorf("%v, %v", policy, err)
	}
}
