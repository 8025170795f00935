package audit_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"novelgate/events/ledger/audit"
	"novelgate/events/ledger/ledgertest"
	"novelgate/internal/testdb"
)

// firstWords matches the first line with a personal part.
var firstWords = regexp.MustCompile(`\A(.*),"personal":"(?:[^"\\]|\\.)*"`)

// TestTamperedFiles edits files of a bundle. Verify names the fault, and the independent verifier fails, too.
func TestTamperedFiles(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	l := ledgertest.New(t)
	l.Append(4700)
	dir := export(t, l, 0)
	const whole, tail = "events/000.ndjson", "events/001.p/604.ndjson"
	lines := func(edit func(lines [][]byte) [][]byte) func([]byte) []byte {
		return func(text []byte) []byte { return bytes.Join(edit(bytes.SplitAfter(text, []byte("\n"))), nil) }
	}
	replace := func(old, with string) func([]byte) []byte {
		return func(text []byte) []byte { return bytes.Replace(text, []byte(old), []byte(with), 1) }
	}
	missingEntries := ""
	for i := range audit.MaxFaults { // each event tells whose entry is missing
		missingEntries += fmt.Sprintf("entry@%d ", 4608+i)
	}
	missingEntries = strings.TrimSpace(missingEntries)
	for name, test := range map[string]struct {
		file    string
		edit    func([]byte) []byte
		want    string
		harmful bool // for the independent verifier, which ignores tiles and manifest
	}{
		"data":     {whole, replace("threadId", "thraadId"), "data@0", true},
		"personal": {whole, replace("reader 0", "reader 9"), "personal@0", true},
		"words": {
			whole, func(text []byte) []byte { return firstWords.ReplaceAll(text, []byte("$1")) }, "personal@0", true,
		},
		"metadata":      {whole, replace(`\"actor\":\"integration`, `\"actor\":\"antegration`), "metadata@0", true},
		"a line less":   {whole, lines(func(l [][]byte) [][]byte { return append(l[:7:7], l[8:]...) }), "missing@7", true},
		"a line twice":  {whole, lines(func(l [][]byte) [][]byte { return append(l[:7:7], l[6:]...) }), "extra@6", true},
		"order":         {whole, lines(func(l [][]byte) [][]byte { l[7], l[8] = l[8], l[7]; return l }), "swapped@7", true},
		"not JSON":      {whole, replace(`{"logIndex":0`, `["logIndex":0`), "broken@0", true},
		"a member more": {whole, replace(`{"logIndex":0,`, `{"logIndex":0,"note":"x",`), "broken@0", false},
		"cut at end":    {tail, func(text []byte) []byte { return text[:len(text)-1] }, "broken@4699", true},
		"cut in a line": {tail, func(text []byte) []byte { return text[:len(text)-50] }, "broken@4699", true},
		"cut":           {tail, lines(func(l [][]byte) [][]byte { return l[:600] }), "truncated@4696", true},
		"indexes swapped": {whole, func(text []byte) []byte {
			text = bytes.Replace(text, []byte(`{"logIndex":7,`), []byte(`{"logIndex":x,`), 1)
			text = bytes.Replace(text, []byte(`{"logIndex":9,`), []byte(`{"logIndex":7,`), 1)
			return bytes.Replace(text, []byte(`{"logIndex":x,`), []byte(`{"logIndex":9,`), 1)
		}, "swapped@7 swapped@7 swapped@8 swapped@9", true},
		"entries gone": {"tile/entries/018.p/92", nil, missingEntries, true},
		"file gone":    {tail, nil, "truncated@4096", true},
		"entry":        {"tile/entries/001", func(b []byte) []byte { b[100]++; return b }, "entry@256", true},
		"hash tile":    {"tile/0/001", func(b []byte) []byte { b[100]++; return b }, "tile@259", false},
		"upper tile":   {"tile/1/000.p/18", func(b []byte) []byte { b[33]++; return b }, "tile@256", false},
		"signature":    {"checkpoint", func(b []byte) []byte { b[len(b)-10] ^= 1; return b }, "signature", true},
		"nothing":      {"checkpoint", func(b []byte) []byte { return b }, "", false},
	} {
		path := filepath.Join(dir, filepath.FromSlash(test.file))
		sound, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		err = os.Remove(path)
		if test.edit != nil {
			err = os.WriteFile(path, test.edit(bytes.Clone(sound)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		r := run(t, audit.Config{Source: bundles(t, dir), Keys: l.Keys})
		wantFaults(t, name, r, test.want, test.want == missingEntries)
		if n, err := verifyBundle(dir, l.Keys[0]); (err != nil) != test.harmful || err == nil && n != 4700 {
			t.Errorf("%s: the independent verifier says %d, %v", name, n, err)
		}
		testdb.NoError(t, os.WriteFile(path, sound, 0o600))
	}
}

// TestKeyOfAnotherOrigin: a signature counts only if the name of its key is the origin.
func TestKeyOfAnotherOrigin(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	l.Append(10)
	dir := export(t, l, 0)
	path := filepath.Join(dir, "checkpoint")
	signed := testdb.Must(os.ReadFile(path))(t)
	private, key, err := note.GenerateKey(rand.Reader, "ledger.example/other")
	if err != nil {
		t.Fatal(err)
	}
	signer := testdb.Must(note.NewSigner(private))(t)
	body, _, _ := bytes.Cut(signed, []byte("\n\n"))
	if signed, err = note.Sign(&note.Note{Text: string(body) + "\n"}, signer); err != nil {
		t.Fatal(err)
	}
	testdb.NoError(t, os.WriteFile(path, signed, 0o600))
	wantFaults(t, "another name", run(t, audit.Config{Source: bundles(t, dir), Keys: []string{key}}), "signature", false)
}

// TestTamperedFront: a manifest is not signed. If it leaves out changed files, the bundle verifies only if the auditor
// says that the front is verified already.
func TestTamperedFront(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	l.Append(9000)
	dir := export(t, l, 0)
	edit(t, filepath.Join(dir, "events", "000.ndjson"), "threadId", "thraadId")
	wantFaults(t, "as it is", run(t, audit.Config{Source: bundles(t, dir), Keys: l.Keys}), "data@0", true)
	edit(t, filepath.Join(dir, "manifest.json"), `"firstLogIndex": 0`, `"firstLogIndex": 8192`)
	source := bundles(t, dir)
	for _, first := range []int64{0, 4096, 9000} {
		_, err := audit.Verify(t.Context(), audit.Config{Source: source, First: first, Keys: l.Keys, Now: time.Now})
		if !errors.Is(err, audit.ErrFirst) || !strings.Contains(err.Error(), "log index 8192,") {
			t.Errorf("from log index %d on: %v", first, err)
		}
	}
	r := run(t, audit.Config{Source: source, First: 8192, Keys: l.Keys})
	wantFaults(t, "from log index 8192 on", r, "", false)
	if r.Unverified != 8192 || r.Entries != 808 {
		t.Errorf("%+v", r)
	}
	_, err := audit.Verify(t.Context(),
		audit.Config{Source: audit.NewDatabase(l.Pool), First: 8192, Keys: l.Keys, Now: time.Now})
	if !errors.Is(err, audit.ErrFirst) {
		t.Errorf("the database, which has everything: %v", err)
	}
}

// edit replaces the first occurrence of a text in a file.
func edit(t *testing.T, path, old, with string) {
	t.Helper()
	text := testdb.Must(os.ReadFile(path))(t)
	if !bytes.Contains(text, []byte(old)) {
		t.Fatalf("%s does not hold %q", path, old)
	}
	testdb.NoError(t, os.WriteFile(path, bytes.Replace(text, []byte(old), []byte(with), 1), 0o600))
}
