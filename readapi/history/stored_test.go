package history_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/events/ledger"
	"novelgate/events/ledger/audit"
	"novelgate/internal/testdb"
)

// TestStoredEvents: audit.Live reads the events of a service as stored, sealed or not, from any log index on, in one
// stream.
func TestStoredEvents(t *testing.T) {
	t.Parallel()
	a := newArchive(t, nil)
	a.seal(t)
	sealed := testdb.Value[int64](t, a.pool, `SELECT max(first_log_index + event_count) FROM ledger_seals`)
	stored := audit.NewDatabase(a.pool)
	entries := func(list []ledger.Event) (entries []string) {
		t.Helper()
		for i := range list {
			entry, err := ledger.AppendEntry(nil, &list[i].Row)
			if err != nil || list[i].Broken != nil {
				t.Fatal(err, list[i].Broken)
			}
			entries = append(entries, fmt.Sprint(list[i].LogIndex, " ", string(entry), list[i].Salt))
		}
		return entries
	}
	live := &audit.Live{Service: &audit.Service{Client: http.DefaultClient, URL: a.url + "/ledger"}, Key: a.otto}
	defer live.Close()
	for _, part := range []struct{ first, count int64 }{{0, 2}, {2, sealed - 2}, {1, 3}} {
		want := testdb.Must(stored.Events(t.Context(), part.first, int(part.count), sealed))(t)
		got := testdb.Must(live.Events(t.Context(), part.first, int(part.count), sealed))(t)
		if diff := cmp.Diff(entries(want), entries(got)); diff != "" {
			t.Errorf("%d from %d on (-stored +live):\n%s", part.count, part.first, diff)
		}
	}
	// The stream that begins with log index 1 goes on.
	testdb.Must(live.Events(t.Context(), 4, int(sealed-4), sealed))(t)
	a.publish(t, "Live")
	got, err := live.Events(t.Context(), sealed, 1, sealed+1)
	if err != nil || len(got) != 1 || got[0].Type != "novel.created.v1" || got[0].LogIndex != ledger.NoLogIndex {
		t.Errorf("an event that is not sealed: %+v, %v", got, err)
	}
	if list := a.entries(t); len(list) != 2 {
		t.Errorf("%d reads on record, want 2", len(list))
	}
	if _, err := live.Events(t.Context(), sealed+10, 1, sealed+11); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("behind the end: %v", err)
	}
	live.Key = a.partner
	if _, err := live.Events(t.Context(), 0, 1, sealed); err == nil {
		t.Error("a partner reads events")
	}
}

// TestStoredFormNeedsLines: only streams have the stored form.
func TestStoredFormNeedsLines(t *testing.T) {
	t.Parallel()
	a := newArchive(t, nil)
	for path, accept := range map[string]string{"?form=stored": "", "?form=other": ndjson, "?form=": ndjson} {
		if c := a.open(t.Context(), t, a.otto, "/api/events"+path, accept); c.status != http.StatusBadRequest {
			t.Errorf("%s: %d", path, c.status)
		}
	}
}
