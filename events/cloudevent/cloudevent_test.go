package cloudevent_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/events/cloudevent"
	"novelgate/events/eventlog"
)

var sameRow = cmpopts.IgnoreUnexported(eventlog.Row{})

// A CloudEvent has all of a stored event that is not kept from its readers, to the byte.
func TestParseIsTheInverseOfAppend(t *testing.T) {
	t.Parallel()
	golden, err := filepath.Glob("../testdata/*.golden")
	if err != nil || len(golden) == 0 {
		t.Fatalf("%d files, %v", len(golden), err)
	}
	full := events.Metadata{
		Actor: "staff:Zoë <\u2028>", KeyID: uuid.UUID{1}, RequestID: "r", Correlation: "c", Causation: "x#2",
		Batch: uuid.UUID{2}, TraceParent: "00-1-2-01",
	}
	alone := events.Metadata{Actor: "service", RequestID: "r", Batch: uuid.UUID{2}}
	for i, file := range golden {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		data, _, _ := bytes.Cut(text, []byte("\n"))
		want := eventlog.Row{
			StreamType: "post", StreamID: uuid.UUID{3}, StreamVersion: i + 1, ID: `"id" é`, Source: "integrations/x/posts",
			Type: filepath.Base(file), Data: data, RecordedAt: time.UnixMicro(1_700_000_000_000_000 + int64(i)).UTC(),
			Metadata: full,
		}
		if i%2 > 0 {
			want.Metadata = alone
		}
		index := int64(i) << 40
		rendered, err := cloudevent.Append(nil, &want, cloudevent.Attributes{LogIndex: &index, Personal: []byte("{}")})
		if err != nil {
			t.Fatal(err)
		}
		got, at, err := cloudevent.Parse(rendered)
		if err != nil || at != index {
			t.Fatalf("log index %d, %v\n%s", at, err, rendered)
		}
		if diff := cmp.Diff(want, got, sameRow); diff != "" {
			t.Errorf("%s (-stored +parsed)\n%s", file, diff)
		}
	}
}

func FuzzParse(f *testing.F) {
	const whole = `{"id":"1","source":"s","type":"t","time":"2026-01-02T12:00:00.1Z","streamtype":"post",` +
		`"streamid":"00000000-0000-0000-0000-000000000001","streamversion":1,"logindex":"41","data":{"a": [1, 2]}}`
	f.Add([]byte(whole))
	for _, part := range []string{`"id"`, `"time"`, `"logindex":"`, `"data"`, `"2026`, `}`} {
		f.Add(bytes.Replace([]byte(whole), []byte(part), []byte("x"), 1))
		f.Add(bytes.Replace([]byte(whole), []byte(part), []byte(`"more":`+part), 1))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		row, index, err := cloudevent.Parse(text)
		if err != nil {
			return
		}
		rendered, err := cloudevent.Append(nil, &row, cloudevent.Attributes{LogIndex: &index})
		if err != nil {
			t.Fatal(err)
		}
		again, at, err := cloudevent.Parse(rendered)
		if err != nil || at != index {
			t.Fatalf("log index %d instead of %d, %v\n%s", at, index, err, rendered)
		}
		row.RecordedAt, again.RecordedAt = row.RecordedAt.UTC().Truncate(time.Microsecond), again.RecordedAt.UTC()
		row.Data = []byte(strings.NewReplacer("\n", " ", "\r", " ").Replace(string(row.Data)))
		if diff := cmp.Diff(row, again, sameRow); diff != "" {
			t.Errorf("(-first +again)\n%s", diff)
		}
	})
}
