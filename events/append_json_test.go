package events_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"novelgate/events"
)

// TestAppendedAsMarshalled holds what is encoded without reflection to the bytes that the struct tags make.
func TestAppendedAsMarshalled(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.String(),
		rapid.StringOf(rapid.RuneFrom([]rune{'"', '\\', '\n', 0, 0x1f, '<', '&', 0x2028, 0xfffd, 'é', '🎉'})))
	id := rapid.Map(rapid.SliceOfN(rapid.Byte(), 16, 16), func(b []byte) uuid.UUID { return uuid.UUID(b) })
	chapter := rapid.SampledFrom([]jsontext.Value{
		nil, jsontext.Value("12.50"), jsontext.Value("-0"), jsontext.Value("1e2"), jsontext.Value(" 7 "),
	})
	rapid.Check(t, func(t *rapid.T) {
		post := events.PostImported{
			IntegrationID: id.Draw(t, "integration"), NovelID: id.Draw(t, "novel"), NovelSlug: text.Draw(t, "slug"),
			ThreadID:     id.Draw(t, "thread"),
			ParentPostID: rapid.Ptr(id, true).Draw(t, "parent"), ChapterNumber: chapter.Draw(t, "chapter"),
			WrittenAt: time.UnixMicro(rapid.Int64Range(0, 253402300799999999).Draw(t, "written")).UTC(),
			Comment: &events.Comment{
				ExternalUUID: text.Draw(t, "uuid"), Username: text.Draw(t, "username"), Content: text.Draw(t, "content"),
			},
		}
		stored, err := events.Encode(post)
		if err != nil {
			t.Fatal(err)
		}
		same(t, stored.Data, post)
		same(t, stored.Personal, post.Comment)

		metadata := events.Metadata{
			Actor: text.Draw(t, "actor"), KeyID: text.Draw(t, "key"), RequestID: text.Draw(t, "request"),
			Correlation: text.Draw(t, "correlation"),
			Causation:   text.Draw(t, "causation"), Batch: id.Draw(t, "batch"), Fingerprint: text.Draw(t, "fingerprint"),
			TraceParent: text.Draw(t, "trace"),
		}
		encoded, err := events.EncodeMetadata(&metadata)
		if err != nil {
			t.Fatal(err)
		}
		same(t, encoded, metadata)
	})
}

// TestAppendedWhole does the same with every member filled, so that one that is new is not forgotten.
func TestAppendedWhole(t *testing.T) {
	t.Parallel()
	for _, event := range samples() {
		stored, err := events.Encode(event)
		if err != nil {
			t.Fatal(err)
		}
		same(t, stored.Data, event)
		if stored.Personal != nil {
			same(t, stored.Personal, events.Personal(event))
		}
	}
	var metadata events.Metadata
	for _, member := range reflect.ValueOf(&metadata).Elem().Fields() {
		if member.Kind() == reflect.String {
			member.SetString("x")
		} else {
			member.Set(reflect.ValueOf(id(1)))
		}
	}
	encoded, err := events.EncodeMetadata(&metadata)
	if err != nil {
		t.Fatal(err)
	}
	same(t, encoded, metadata)
}

func same(t rapid.TB, got []byte, v any) {
	t.Helper()
	want, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("appended, not as marshalled (-want +got):\n%s", diff)
	}
}

// TestNotEncodable holds that what cannot be JSON is refused, by name of the member.
func TestNotEncodable(t *testing.T) {
	t.Parallel()
	const broken = "\xff"
	comment := func(c events.Comment) events.Event { return events.PostImported{Comment: &c} }
	for member, event := range map[string]events.Event{
		"novelSlug":     events.PostImported{NovelSlug: broken},
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
		"actor": {Actor: broken}, "keyId": {KeyID: broken}, "requestId": {RequestID: broken},
		"correlation": {Correlation: broken},
		"causation":   {Causation: broken}, "fingerprint": {Fingerprint: broken}, "traceparent": {TraceParent: broken},
	} {
		if _, err := events.EncodeMetadata(&metadata); err == nil || !strings.Contains(err.Error(), member) {
			t.Errorf("%s: got %v", member, err)
		}
	}
}
