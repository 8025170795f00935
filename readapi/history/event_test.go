package history_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
	"novelgate/readapi/history"
)

func sample() history.Event {
	return history.Event{
		Row: eventlog.Row{
			LogIndex:      3_000_000_000, // more than an integer of CloudEvents holds
			StreamType:    "post",
			StreamID:      uuid.MustParse("01000000-0000-7000-8000-000000000001"),
			StreamVersion: 2, ID: "evt-100", Source: "integrations/x/posts", Type: "post.imported.v1",
			Data:     []byte(`{"b":1.50,"a":"\u00e9"}`),
			Personal: []byte(`{"uuid":"u","username":"Ada"}`), RecordedAt: time.Date(2026, 1, 2, 12, 0, 0, 123456000, time.UTC),
			Metadata: events.Metadata{
				Actor: "integration:x", KeyID: uuid.MustParse("01000000-0000-7000-8000-000000000003"), RequestID: "r",
				Causation:   "c",
				Batch:       uuid.MustParse("01000000-0000-7000-8000-000000000002"),
				TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Fingerprint: events.Fingerprint{9},
			},
		},
	}
}

func TestCloudEvent(t *testing.T) {
	t.Parallel()
	e := sample()
	got := testdb.Must(history.AppendCloudEvent(nil, &e))(t)
	want := `{"specversion":"1.0","id":"evt-100","source":"integrations/x/posts","type":"post.imported.v1",` +
		`"subject":"post/01000000-0000-7000-8000-000000000001","time":"2026-01-02T12:00:00.123456Z","datacontenttype":"application/json",` +
		`"streamtype":"post","streamid":"01000000-0000-7000-8000-000000000001","streamversion":2,"logindex":"3000000000","cursor":"MzAwMDAwMDAwMSMBAAAAAABwAIAAAAAAAAAC",` +
		`"actor":"integration:x","requestid":"r","correlation":"r","causation":"c",` +
		`"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","personal":"{\"uuid\":\"u\",\"username\":\"Ada\"}",` +
		`"keyid":"01000000-0000-7000-8000-000000000003","batch":"01000000-0000-7000-8000-000000000002","data":{"b":1.50,"a":"\u00e9"}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	e.Personal = nil // erased
	if got := testdb.Must(history.AppendCloudEvent(nil, &e))(t); bytes.Contains(got, []byte("personal")) {
		t.Errorf("an erased event: %s", got)
	}
}

// TestCloudEventsAreValid: the CloudEvents SDK accepts every event that can be stored.
func TestCloudEventsAreValid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringN(1, 20, -1)
		e := sample()
		e.ID = rapid.StringMatching(`[!-~]{1,255}`).Draw(rt, "id")
		e.StreamVersion = rapid.IntRange(1, 1<<31-1).Draw(rt, "version")
		e.Metadata.Actor = text.Draw(rt, "actor")
		e.Metadata.Correlation = rapid.SampledFrom([]string{"", "c"}).Draw(rt, "correlation")
		inner, err := json.Marshal(map[string]any{
			text.Draw(rt, "name"): text.Draw(rt, "value"), "n": rapid.Float64().Draw(rt, "n"),
		})
		if err != nil {
			rt.Fatal(err)
		}
		e.Data = append(append([]byte("{\n \"x\":\r\n"), inner...), '}')
		e.Personal = inner
		got, err := history.AppendCloudEvent(nil, &e)
		if err != nil {
			rt.Fatal(err)
		}
		for _, b := range got {
			if b == '\n' || b == '\r' {
				rt.Fatalf("more than one line: %q", got)
			}
		}
		var parsed cloudevents.Event
		if err := json.Unmarshal(got, &parsed); err != nil {
			rt.Fatalf("%v: %s", err, got)
		}
		if err := parsed.Validate(); err != nil {
			rt.Fatalf("%v: %s", err, got)
		}
		extensions := parsed.Extensions()
		if parsed.ID() != e.ID || extensions["personal"] != string(e.Personal) ||
			extensions["streamversion"] != int32(e.StreamVersion) ||
			extensions["actor"] != e.Metadata.Actor || extensions["logindex"] != "3000000000" {
			rt.Fatalf("read as %v", parsed)
		}
	})
}
