package ledgertest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
	"novelgate/internal/testdb"
)

// Witness cosigns checkpoints according to C2SP tlog-witness and tlog-cosignature. It shares no code with the client.
type Witness struct {
	URL         *url.URL
	VerifierKey string

	name    string
	private ed25519.PrivateKey
	hash    [4]byte

	mu     sync.Mutex
	logs   map[string][]note.Verifier // verifiers of the trusted logs, by origin
	trees  map[string]tlog.Tree       // by origin: the cosigned tree
	away   bool
	tamper func(lines string) string
	olds   []int64 // old sizes of all requests
}

// NewWitness starts a witness that trusts the keys of a log.
func NewWitness(t testing.TB, name, origin string, keys ...string) *Witness {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	const algCosignature = 4
	encoded := append([]byte{algCosignature}, public...)
	sum := sha256.Sum256(append([]byte(name+"\n"), encoded...))
	w := &Witness{
		VerifierKey: fmt.Sprintf("%s+%x+%s", name, sum[:4], base64.StdEncoding.EncodeToString(encoded)),
		name:        name, private: private, hash: [4]byte(sum[:]),
		logs: map[string][]note.Verifier{}, trees: map[string]tlog.Tree{},
	}
	w.Trust(t, origin, keys...)
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	if w.URL, err = url.Parse(server.URL + "/prefix"); err != nil {
		t.Fatal(err)
	}
	return w
}

// Trust makes the witness cosign the checkpoints of a log.
func (w *Witness) Trust(t testing.TB, origin string, keys ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		verifier := testdb.Must(note.NewVerifier(key))(t)
		w.logs[origin] = append(w.logs[origin], verifier)
	}
}

// Away makes the witness answer 503 as long as away is true.
func (w *Witness) Away(away bool) { w.mu.Lock(); defer w.mu.Unlock(); w.away = away }

// Tamper changes the cosignatures in its answers.
func (w *Witness) Tamper(change func(lines string) string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tamper = change
}

// SetTree sets the cosigned tree of a log.
func (w *Witness) SetTree(origin string, tree tlog.Tree) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trees[origin] = tree
}

// Tree returns the cosigned tree of a log.
func (w *Witness) Tree(origin string) tlog.Tree {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trees[origin]
}

// Olds returns the old sizes of all requests so far.
func (w *Witness) Olds() []int64 { w.mu.Lock(); defer w.mu.Unlock(); return w.olds }

// ServeHTTP handles POST /prefix/add-checkpoint.
func (w *Witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Method != http.MethodPost || r.URL.Path != "/prefix/add-checkpoint" {
		rw.WriteHeader(http.StatusNotFound)
		return
	}
	if w.away {
		rw.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		rw.WriteHeader(http.StatusBadRequest)
		return
	}
	status, answer := w.add(body)
	if status == http.StatusConflict {
		rw.Header().Set("Content-Type", "text/x.tlog.size")
	}
	rw.WriteHeader(status)
	_, _ = io.WriteString(rw, answer)
}

// add checks and cosigns the checkpoint of a request body.
func (w *Witness) add(body []byte) (status int, answer string) {
	head, signed, ok := bytes.Cut(body, []byte("\n\n"))
	lines := strings.Split(string(head), "\n")
	text, isOld := strings.CutPrefix(lines[0], "old ")
	old, err := strconv.ParseInt(text, 10, 64)
	if !ok || !isOld || err != nil || strconv.FormatInt(old, 10) != text || len(lines) > 1+63 {
		return http.StatusBadRequest, ""
	}
	w.olds = append(w.olds, old)
	c, err := ledger.ParseCheckpoint(signed)
	if err != nil {
		return http.StatusBadRequest, ""
	}
	if w.logs[c.Origin] == nil {
		return http.StatusNotFound, ""
	}
	opened, err := note.Open(signed, note.VerifierList(w.logs[c.Origin]...))
	if err != nil {
		return http.StatusForbidden, ""
	}
	last := w.trees[c.Origin]
	var proof tlog.TreeProof
	for _, line := range lines[1:] {
		hash, err := tlog.ParseHash(line)
		if err != nil {
			return http.StatusBadRequest, ""
		}
		proof = append(proof, hash)
	}
	switch {
	case old > c.Tree.N:
		return http.StatusBadRequest, ""
	case old != last.N, old > 0 && old == c.Tree.N && last.Hash != c.Tree.Hash:
		return http.StatusConflict, fmt.Sprintf("%d\n", last.N)
	case old == 0 && len(proof) > 0,
		old > 0 && old < c.Tree.N && tlog.CheckTree(proof, c.Tree.N, c.Tree.Hash, old, last.Hash) != nil:
		return http.StatusUnprocessableEntity, ""
	}
	w.trees[c.Origin] = c.Tree
	answer = w.Cosign(opened.Text)
	if w.tamper != nil {
		answer = w.tamper(answer)
	}
	return http.StatusOK, answer
}

// Cosign returns the signature line for the text of a note.
func (w *Witness) Cosign(text string) string {
	now := uint64(time.Now().Unix()) //nolint:gosec // not before 1970
	message := fmt.Sprintf("cosignature/v1\ntime %d\n%s", now, text)
	sig := binary.BigEndian.AppendUint64(w.hash[:4:4], now)
	sig = append(sig, ed25519.Sign(w.private, []byte(message))...)
	return "— " + w.name + " " + base64.StdEncoding.EncodeToString(sig) + "\n"
}
