package events_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/events"
)

// TestStoredForms checks the stored bytes of members that are absent, empty or null.
func TestStoredForms(t *testing.T) {
	t.Parallel()
	for want, event := range map[string]events.Event{
		// The rule "omitted fields stay unchanged" relies on this.
		`{}`:               events.NovelUpdated{},
		`{"synopsis":""}`:  events.NovelUpdated{Synopsis: new("")},
		`{"genres":[]}`:    events.NovelUpdated{Genres: new([]string{})},
		`{"genres":["a"]}`: events.NovelUpdated{Genres: new([]string{"a"})},
		`{"author":"A","synopsis":"","coverUrl":"","genres":[],"language":"","readingStatus":""}`: events.NovelUpdated{
			Author: new("A"), Synopsis: new(""), CoverURL: new(""), Genres: new([]string{}), Language: new(""),
			ReadingStatus: new(""),
		},
		// Reasons were added later: they are the last member, and absent when empty.
		`{"language":"fr","reason":"typo"}`: events.NovelUpdated{Language: new("fr"), Reason: "typo"},
		`{"title":"T","slug":"t","author":"A","state":"published","reason":"licensed"}`: events.NovelCreated{
			Title: "T", Slug: "t", Author: "A", State: "published", Reason: "licensed",
		},
		`{"title":"T","slug":"t","author":"A","state":"published"}`: events.NovelCreated{
			Title: "T", Slug: "t", Author: "A", State: "published",
		},
	} {
		stored, err := events.Encode(event)
		if err != nil || string(stored.Data) != want {
			t.Errorf("stored %s, want %s, %v", stored.Data, want, err)
		}
		decoded, err := events.Decode(events.Stored{Type: stored.Type, Data: []byte(want)})
		if diff := cmp.Diff(event, decoded); err != nil || diff != "" {
			t.Errorf("decoded %s: %v (-event +decoded)\n%s", want, err, diff)
		}
	}
}

func TestChapterNumberIsStoredAsSent(t *testing.T) {
	t.Parallel()
	for _, number := range []string{
		"0", "0.0", "12.50", "1e2", "1E+2", "1000000",
		"0.1000000000000000055511151231257827",
	} {
		stored, err := events.Encode(events.PostImported{ChapterNumber: jsontext.Value(number)})
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := events.Decode(stored)
		if err != nil {
			t.Fatal(err)
		}
		if imported, ok := decoded.(events.PostImported); !ok || string(imported.ChapterNumber) != number {
			t.Errorf("%s came back as %+v", number, decoded)
		}
	}
}

// TestPersonalPartGoesAsAWhole: after its personal part is erased, an event has no personal data and can still be
// decoded.
func TestPersonalPartGoesAsAWhole(t *testing.T) {
	t.Parallel()
	personal := 0
	for _, event := range samples(t) {
		stored, err := events.Encode(event)
		if err != nil {
			t.Fatal(err)
		}
		if (stored.Personal != nil) != (events.Personal(event) != nil) {
			t.Errorf("%s: stored %s, says %v", event.Type(), stored.Personal, events.Personal(event))
		}
		if stored.Personal == nil {
			continue
		}
		personal++
		stored.Personal = nil
		stored.Integration = uuid.NullUUID{UUID: id(1), Valid: true} // of the source
		erased, err := events.Decode(stored)
		if err != nil {
			t.Fatal(err)
		}
		if left := events.Personal(erased); left != nil {
			t.Errorf("%s: %v is left", event.Type(), left)
		}
		again, err := events.Encode(erased)
		if err != nil || again.Personal != nil || string(again.Data) != string(stored.Data) {
			t.Errorf("%s: encoded again: %s, personal %s, %v", event.Type(), again.Data, again.Personal, err)
		}
	}
	if personal != 9 {
		t.Errorf("%d events have a personal part", personal)
	}
}

func TestDecodeIgnoresUnknownMembers(t *testing.T) {
	t.Parallel()
	got, err := events.Decode(events.Stored{
		Type: "post.imported.v1", Data: []byte(`{"writtenAt":"2026-01-02T03:04:05Z","later":{"a":[1]}}`),
		Personal: []byte(`{"uuid":"u","username":"n","content":"c","mood":"good"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := events.PostImported{
		WrittenAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Comment:   &events.Comment{ExternalUUID: "u", Username: "n", Content: "c"},
	}
	if diff := cmp.Diff(events.Event(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for name, stored := range map[string]events.Stored{
		"data is cut off":     {Type: "novel.approved.v1", Data: []byte(`{"reason":"x`)},
		"data is no object":   {Type: "novel.approved.v1", Data: []byte(`[]`)},
		"wrong type":          {Type: "novel.approved.v1", Data: []byte(`{"reason":1}`)},
		"personal is cut off": {Type: "post.imported.v1", Data: []byte(`{}`), Personal: []byte(`{"uuid":`)},
		"unknown type":        {Type: "novel.created.v99", Data: []byte(`{}`)},
	} {
		event, err := events.Decode(stored)
		if err == nil || errors.Is(err, events.ErrUnknownType) != (name == "unknown type") {
			t.Errorf("%s: decoded %+v, %v", name, event, err)
		}
	}
}

// TestMetadataIsStable checks the stored bytes of metadata.
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

// TestDecodeMetadataIsStrict: metadata in any other form than that of EncodeMetadata is refused.
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

// TestNotEncodable: values that are not valid JSON are refused with the name of the member.
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
