package events_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/events"
)

func TestDecodeUnknownType(t *testing.T) {
	t.Parallel()
	_, err := events.Decode(events.Stored{Type: "novel.created.v99", Data: []byte(`{}`)})
	if !errors.Is(err, events.ErrUnknownType) {
		t.Errorf("got %v, want ErrUnknownType", err)
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

func TestDecodeRefusesBrokenBytes(t *testing.T) {
	t.Parallel()
	for name, stored := range map[string]events.Stored{
		"data is cut off":     {Type: "novel.approved.v1", Data: []byte(`{"reason":"x`)},
		"data is no object":   {Type: "novel.approved.v1", Data: []byte(`[]`)},
		"wrong type":          {Type: "novel.approved.v1", Data: []byte(`{"reason":1}`)},
		"personal is cut off": {Type: "post.imported.v1", Data: []byte(`{}`), Personal: []byte(`{"uuid":`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if event, err := events.Decode(stored); err == nil {
				t.Errorf("decoded %+v", event)
			}
		})
	}
}

func TestErasedPersonalPartIsNil(t *testing.T) {
	t.Parallel()
	stored, err := events.Encode(events.PostImported{Comment: &events.Comment{Username: "n"}})
	if err != nil {
		t.Fatal(err)
	}
	stored.Personal = nil // as erasure leaves it
	stored.Integration = uuid.NullUUID{UUID: id(1), Valid: true}
	decoded, err := events.Decode(stored)
	if err != nil {
		t.Fatal(err)
	}
	imported, ok := decoded.(events.PostImported)
	if !ok || imported.Comment != nil || imported.IntegrationID != id(1) {
		t.Errorf("decoded %+v", decoded)
	}
	again, err := events.Encode(decoded)
	if err != nil {
		t.Fatal(err)
	}
	if again.Personal != nil || string(again.Data) != string(stored.Data) {
		t.Errorf("encoded again: %s, personal %s", again.Data, again.Personal)
	}
}

// TestPersonalPartGoesAsAWhole: of no event anything personal is left once its personal part is erased, and it can be
// read.
func TestPersonalPartGoesAsAWhole(t *testing.T) {
	t.Parallel()
	personal := 0
	for _, event := range samples() {
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
		erased, err := events.Decode(stored)
		if err != nil {
			t.Fatal(err)
		}
		if left := events.Personal(erased); left != nil {
			t.Errorf("%s: %v is left", event.Type(), left)
		}
	}
	if personal != 7 {
		t.Errorf("%d events have a personal part", personal)
	}
}

// TestUpdateKeepsClearedApartFromOmitted is what an upsert's "omitted fields stay unchanged" rests on.
func TestUpdateKeepsClearedApartFromOmitted(t *testing.T) {
	t.Parallel()
	for data, event := range map[string]events.NovelUpdated{
		`{}`:               {},
		`{"synopsis":""}`:  {Synopsis: new("")},
		`{"genres":[]}`:    {Genres: new([]string{})},
		`{"genres":["a"]}`: {Genres: new([]string{"a"})},
		`{"author":"A","synopsis":"","coverUrl":"","genres":[],"language":"","readingStatus":""}`: {
			Author: new("A"), Synopsis: new(""), CoverURL: new(""), Genres: new([]string{}), Language: new(""),
			ReadingStatus: new(""),
		},
	} {
		t.Run(data, func(t *testing.T) {
			t.Parallel()
			stored, err := events.Encode(event)
			if err != nil {
				t.Fatal(err)
			}
			if string(stored.Data) != data {
				t.Errorf("stored as %s", stored.Data)
			}
			decoded, err := events.Decode(events.Stored{Type: stored.Type, Data: []byte(data)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(events.Event(event), decoded); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
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

func TestEncodeRefusesWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	if stored, err := events.Encode(events.NovelApproved{Reason: "\xff"}); err == nil {
		t.Errorf("invalid UTF-8 was stored as %q", stored.Data)
	}
}
