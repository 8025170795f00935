package e2e_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	formats "github.com/transparency-dev/formats/log"

	"novelgate/internal/testdb"
)

// auditor keeps every checkpoint that it is shown.
type auditor struct {
	t     *testing.T
	mu    sync.Mutex
	kept  map[uint64]formats.Checkpoint
	size  uint64 // of the largest
	note  []byte // the largest
	shown int
}

// watch asks replicas for their newest checkpoint, in turn, until ctx ends.
func (a *auditor) watch(ctx context.Context, replicas ...*Service) {
	for n := 0; ctx.Err() == nil; n++ {
		url := replicas[n%len(replicas)].URL + "/ledger/checkpoint"
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			a.t.Error(err)
			return
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			text, err := io.ReadAll(response.Body)
			if closed := response.Body.Close(); closed == nil && err == nil && response.StatusCode == http.StatusOK {
				a.keep(text)
			}
		}
		time.Sleep(10 * time.Millisecond) // a guest, and not a load
	}
}

func (a *auditor) keep(text []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var c formats.Checkpoint
	if _, err := c.Unmarshal(text); err != nil {
		a.t.Errorf("%v: %q", err, text)
		return
	}
	a.shown++
	if before, ok := a.kept[c.Size]; ok && (before.Origin != c.Origin || string(before.Hash) != string(c.Hash)) {
		a.t.Errorf("a fork: %+v and %+v", before, c)
	}
	if a.kept[c.Size] = c; c.Size >= a.size {
		a.size, a.note = c.Size, text
	}
}

func (a *auditor) largest() (uint64, []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.size, a.note
}

// TestFailoverForksNoLedger: an asynchronous standby that lacks signed events is promoted under two replicas, which
// share the memory of the ledger, or of which one has it. Neither signs another history, and what an auditor has
// kept says what was lost.
func TestFailoverForksNoLedger(t *testing.T) {
	t.Parallel()
	for round := range failovers(t, 2) {
		memory := []string{"shared", "one"}[round%2]
		t.Run(fmt.Sprint(memory, round), func(t *testing.T) { failOver(t, memory == "shared") })
	}
}

func failOver(t *testing.T, shared bool) {
	t.Helper()
	primary := startServer(t, nil)
	first, second := t.TempDir(), t.TempDir()
	key := filepath.Join(first, "ledger.key")
	before := serve(t, primary.url(), "--data-dir", first) // makes the key and the memory, and the schema
	standby := startStandby(t, primary)
	before.kill()
	both := primaryOf(t, primary, standby) + "&connect_timeout=30" // all connect at once, on a machine that is busy
	copied, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(second, "ledger.key"), copied, 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--data-dir", second}
	if shared {
		flags = append(flags, "--ledger-memory", key+".memory")
	}
	replicas := []*Service{serve(t, both, "--data-dir", first), serve(t, both, flags...)}

	a := &auditor{t: t, kept: map[uint64]formats.Checkpoint{}}
	watching, stop := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() { defer close(watched); a.watch(watching, replicas...) }()
	defer func() { stop(); <-watched }()
	p := newPartner(t, primary.url())
	primary.awaitStandby(t, standby)
	l := newLoad(t, p)
	l.aim(replicas...)
	l.start(2)
	l.book.await(20)
	time.Sleep(rand.N(1500 * time.Millisecond)) // the moment of the cut, within and between signatures
	standby.cut(t)
	surviving := value[int64](t, standby.url(), `SELECT max(tree_size) FROM ledger_checkpoints`)
	seen, _ := a.largest()
	testdb.Eventually(t, "a checkpoint is kept that the standby lacks", func() bool {
		size, _ := a.largest()
		return size > seen && int64(size) > surviving
	})
	l.stop()
	primary.crash(t)
	standby.promote(t)
	l = newLoad(t, p)
	l.aim(replicas...)
	l.start(2)
	l.book.await(50)
	signers := 1
	if shared {
		signers = 2
	}
	testdb.Eventually(t, "the ledger has outgrown what was signed, and no signer signs", func() bool {
		size, _ := a.largest()
		refusing := 0
		for _, r := range replicas {
			refusing += strings.Count(r.metrics(t), "\nnovelgate_ledger_signing_refused 1\n")
		}
		return refusing == signers && value[int64](t, standby.url(), `SELECT tree_size FROM ledger_state`) > int64(size)
	})
	l.stop()
	if now := value[int64](t, standby.url(), `SELECT max(tree_size) FROM ledger_checkpoints`); now != surviving {
		t.Errorf("checkpoints over up to %d entries after the failover, and %d before", now, surviving)
	}
	size, note := a.largest()
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.WriteFile(kept, note, 0o600); err != nil {
		t.Fatal(err)
	}
	wantLost := func(says string) {
		t.Helper()
		p := launch(t, "events", "verify", "--no-projections", "--against", kept, "--database-url", standby.url())
		if code := p.wait(t); code != 1 || !strings.Contains(p.stdout.String(), says) {
			t.Errorf("verify: exit code %d, without %q\n%s%s", code, says, p.stdout, p.stderr)
		}
	}
	wantLost(fmt.Sprintf("covers %d entries, and the history has %d", size, surviving))
	for _, r := range replicas {
		r.kill()
	}
	stop()
	<-watched
	next := serve(t, both, "--data-dir", first, "--ledger-origin", "ledger.example/second")
	testdb.Eventually(t, "the new origin is signed", func() bool {
		status, text := Get(t, next.URL+"/ledger/checkpoint")
		return status == http.StatusOK && strings.HasPrefix(text, "ledger.example/second\n")
	})
	wantLost(fmt.Sprintf("lost at log index %d: %s covers %d entries", surviving, kept, size))
	t.Logf("%d checkpoints were shown; lost from %d to %d", a.shown, surviving, size)
}
