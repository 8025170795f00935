package events_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/events"
)

// TestMetadataIsStable holds the bytes of the metadata, which are stored, as the golden files hold those of events.
func TestMetadataIsStable(t *testing.T) {
	t.Parallel()
	for want, metadata := range map[string]events.Metadata{
		`{"actor":"staff:zoë","batch":"01000000-0000-0000-0000-000000000000"}`: {Actor: "staff:zoë", Batch: uuid.UUID{1}},
		`{"actor":"<a>","keyId":"03000000-0000-0000-0000-000000000000","requestId":"\"r\"","correlation":"c",` +
			`"causation":"cc","batch":"02000000-0000-0000-0000-000000000000","fingerprint":"-_8AAAAAAAAAAAAAAAAAAA",` +
			`"traceparent":"00-t"}`: {
			Actor: "<a>", KeyID: uuid.UUID{3}, RequestID: `"r"`, Correlation: "c", Causation: "cc", Batch: uuid.UUID{2},
			Fingerprint: events.Fingerprint{0xfb, 0xff}, TraceParent: "00-t",
		},
	} {
		got, err := events.EncodeMetadata(&metadata)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if decoded, err := events.DecodeMetadata(got); err != nil || decoded != metadata {
			t.Errorf("decoded %+v, %v", decoded, err)
		}
	}
}

// TestDecodeMetadataIsStrict: what EncodeMetadata does not write is not metadata.
func TestDecodeMetadataIsStrict(t *testing.T) {
	t.Parallel()
	const batch = `"batch":"02000000-0000-0000-0000-000000000000"`
	for _, encoded := range []string{
		``, `null`, `{}`, `{"actor":"a"}`, `{"actor":"a",` + batch + `,"more":1}`, `{"actor":"a", ` + batch + `}`,
		`{` + batch + `,"actor":"a"}`, `{"actor":"a","requestId":"",` + batch + `}`,
		`{"actor":"a",` + batch + `,"fingerprint":"-_8AAAAAAAAAAAAAAAAAAB"}`, `{"actor":"a",` + batch + `,"fingerprint":"f"}`,
	} {
		if m, err := events.DecodeMetadata([]byte(encoded)); err == nil {
			t.Errorf("%s: %+v", encoded, m)
		}
	}
}

// TestNotEncodable holds that what cannot be JSON is refused, by name of the member.
func TestNotEncodable(t *testing.T) {
	t.Parallel()
	const broken = "\xff"
	comment := func(c events.Comment) events.Event { return events.PostImported{Comment: &c} }
	for member, event := range map[string]events.Event{
		"chapterNumber": events.PostImported{ChapterNumber: jsontext.Value("1.")},
		"writtenAt":     events.PostImported{WrittenAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"uuid":          comment(events.Comment{ExternalUUID: broken}),
		"username":      comment(events.Comment{Username: broken}),
		"content":       comment(events.Comment{Content: broken}),
	} {
		if _, err := events.Encode(event); err == nil || !strings.Contains(err.Error(), member) {
			t.Errorf("%s: got %v", member, err)
		}
	}
	for member, metadata := range map[string]events.Metadata{
		"actor": {Actor: broken}, "requestId": {RequestID: broken}, "correlation": {Correlation: broken},
		"causation": {Causation: broken}, "traceparent": {TraceParent: broken},
	} {
		if _, err := events.EncodeMetadata(&metadata); err == nil || !strings.Contains(err.Error(), member) {
			t.Errorf("%s: got %v", member, err)
		}
	}
}
