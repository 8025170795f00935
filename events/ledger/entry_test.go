package ledger_test

import (
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/events/ledger"
	"novelgate/internal/testdb"
)

var update = flag.Bool("update", false, "write golden files that do not exist yet; one that exists is never changed")

func salt(text string) uuid.NullUUID {
	return uuid.NullUUID{UUID: uuid.UUID([]byte(text)), Valid: true}
}

func sampleEvent() eventlog.Row {
	return eventlog.Row{
		ID: "evt-1", Source: "integrations/7/posts", Type: "post.imported.v1", StreamType: "post",
		StreamID: [16]byte{0: 1, 15: 0xff}, StreamVersion: 3,
		RecordedAt: time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC),
		Data:       []byte(`{"a":1}`), Personal: []byte(`{"content":"é"}`), Salt: salt("0123456789abcdef"),
		Metadata: events.Metadata{
			Actor: "x", KeyID: uuid.UUID{1}, RequestID: "r", Batch: uuid.UUID{2}, Fingerprint: events.Fingerprint{3},
		},
	}
}

func variants() map[string]eventlog.Row {
	full := sampleEvent()
	none, plain, empty, before := full, full, full, full
	none.Personal = nil
	plain.Salt = uuid.NullUUID{}
	empty.Personal = []byte{}
	before.RecordedAt = time.Date(1969, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
	return map[string]eventlog.Row{
		"full": full, "never_personal": none, "no_salt": plain, "empty_personal": empty, "before_1970": before,
	}
}

// TestEntryGolden: entries must stay computable for ever.
func TestEntryGolden(t *testing.T) {
	t.Parallel()
	for name, event := range variants() {
		entry := testdb.Must(ledger.AppendEntry(nil, &event))(t)
		file := "testdata/" + name + ".golden"
		got := hex.Dump(entry)
		if _, err := os.Stat(file); *update && os.IsNotExist(err) {
			testdb.NoError(t, os.WriteFile(file, []byte(got), 0o600))
		}
		want := testdb.Must(os.ReadFile(file))(t)
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestEntriesDiffer: every change of an event changes its entry, and texts are delimited.
func TestEntriesDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	add := func(name string, change func(e *eventlog.Row)) {
		event := sampleEvent()
		change(&event)
		entry := testdb.Must(ledger.AppendEntry(nil, &event))(t)
		if other, ok := seen[string(entry)]; ok {
			t.Errorf("%s has the entry of %s", name, other)
		}
		seen[string(entry)] = name
	}
	add("original", func(*eventlog.Row) {})
	add("id", func(e *eventlog.Row) { e.ID = "evt-2" })
	add("source", func(e *eventlog.Row) { e.Source += "x" })
	add("type", func(e *eventlog.Row) { e.Type += "x" })
	add("border of id and source", func(e *eventlog.Row) { e.ID, e.Source = e.ID+e.Source[:1], e.Source[1:] })
	add("border of type and stream type",
		func(e *eventlog.Row) { e.Type, e.StreamType = e.Type+e.StreamType[:1], e.StreamType[1:] })
	add("stream type", func(e *eventlog.Row) { e.StreamType = "novel" })
	add("stream", func(e *eventlog.Row) { e.StreamID[7]++ })
	add("version", func(e *eventlog.Row) { e.StreamVersion++ })
	add("time", func(e *eventlog.Row) { e.RecordedAt = e.RecordedAt.Add(time.Microsecond) })
	add("data", func(e *eventlog.Row) { e.Data = []byte(`{"a": 1}`) })
	add("personal", func(e *eventlog.Row) { e.Personal = []byte(`{"content":"e"}`) })
	add("no personal", func(e *eventlog.Row) { e.Personal = nil })
	add("empty personal", func(e *eventlog.Row) { e.Personal = []byte{} })
	add("salt", func(e *eventlog.Row) { e.Salt = salt("0123456789abcdeF") })
	add("no salt", func(e *eventlog.Row) { e.Salt = uuid.NullUUID{} })
	add("salt inside personal", func(e *eventlog.Row) {
		e.Personal, e.Salt = append(e.Salt.UUID[:], e.Personal...), uuid.NullUUID{}
	})
	add("metadata", func(e *eventlog.Row) { e.Metadata.Actor = "y" })
}

func TestEntryTooLarge(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(e *eventlog.Row){
		"one text":     func(e *eventlog.Row) { e.ID = strings.Repeat("x", 65_536) },
		"all together": func(e *eventlog.Row) { e.ID, e.Source = strings.Repeat("x", 40_000), strings.Repeat("y", 40_000) },
	} {
		event := sampleEvent()
		change(&event)
		if _, err := ledger.AppendEntry(nil, &event); !errors.Is(err, ledger.ErrEntryTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
