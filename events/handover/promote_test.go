package handover_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/handover"
	"novelgate/events/ledger"
	"novelgate/events/ledger/ledgertest"
	"novelgate/events/mirror"
	"novelgate/internal/testdb"
)

// TestPromoteRefused: a mirror of other events, or one that has never followed the keys of a token, is not promoted
// with it.
func TestPromoteRefused(t *testing.T) {
	t.Parallel()
	origin := ledgertest.New(t)
	origin.Append(5)
	file, _ := origin.Files()
	keys, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := &handover.Mirror{Pool: testdb.Pool(t, testdb.New(t)), Wait: time.Minute}
	if err := mirror.Begin(t.Context(), m.Pool, "https://origin.example"); err != nil {
		t.Fatal(err)
	}
	other := ledger.NewEdge()
	for i := range byte(6) {
		if err := other.Push(tlog.RecordHash([]byte{i}), 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	testdb.Exec(t, m.Pool, `UPDATE mirror SET tree_size = $1, edge = $2`, other.Size(), other.Nodes())
	token := &handover.Token{
		Promotion: uuid.New(), Log: testdb.Value[uuid.UUID](t, m.Pool, `SELECT id FROM log_identity`),
		Checkpoint: string(origin.Latest().Note), Keys: string(keys), Memory: uuid.New(),
	}
	refused := func(why string) {
		t.Helper()
		_, err := m.Promote(t.Context(), token)
		if !errors.Is(err, handover.ErrRefused) || !strings.Contains(err.Error(), why) {
			t.Errorf("promoted: %v, want %q", err, why)
		}
	}
	refused("no signature of a key that the mirror knows")
	testdb.Exec(t, m.Pool, `INSERT INTO ledger_origins (ordinal, origin, tree_size, started_at) VALUES (1, $1, 0, now())`,
		ledgertest.Origin)
	testdb.Exec(t, m.Pool, `INSERT INTO ledger_keys (origin, verifier_key, first_used_at) VALUES ($1, $2, now())`,
		ledgertest.Origin, origin.Keys[0])
	refused("it is another history")
	token.Log = uuid.New()
	refused("this is another one")
}
