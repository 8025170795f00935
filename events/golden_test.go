package events_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/events"
)

var update = flag.Bool("update", false, "write golden files that do not exist yet; one that exists is never changed")

// samples are one event of each type, every field filled.
func samples() []events.Event {
	integrationID, other := id(1), id(2)
	noon := time.Date(2026, 3, 4, 12, 30, 15, 123456000, time.UTC)
	ref := events.AuthorRef{IntegrationID: integrationID, Author: &events.ExternalAuthor{ExternalUUID: "user/1 Ω"}}
	return []events.Event{
		events.NovelCreated{
			Title: "The Tale of  Genji's “Æsir” <&>", Slug: "the-tale-of-genji", Author: "Murasaki 紫式部",
			Synopsis: "line\nline\t\"quoted\" \\",
			CoverURL: "https://example.com/c.png?a=1&b=2", Genres: []string{"fantasy", "slice of life"}, Language: "ja",
			ReadingStatus: "ongoing", OwnerID: &integrationID, State: "approved",
		},
		events.NovelUpdated{
			Author: new("A"), Synopsis: new(""), CoverURL: new(""), Genres: new([]string{}), Language: new("fr"),
			ReadingStatus: new("hiatus"),
		},
		events.NovelPublished{Reason: "licensed"},
		events.NovelApproved{Reason: "fine"},
		events.NovelRejected{Reason: "spam"},
		events.NovelBarred{Title: "The Tale of  Genji's “Æsir” <&>", Slug: "the-tale-of-genji", Reason: "spam"},
		events.NovelUnbarred{Reason: "a mistake"},
		events.ThreadOpened{NovelID: id(3)},
		events.PostImported{
			IntegrationID: integrationID, NovelID: id(3), ThreadID: id(4), ParentPostID: &other,
			ChapterNumber: jsontext.Value("12.50"), WrittenAt: noon,
			Comment: &events.Comment{ExternalUUID: "user-1", Username: "Zoë", Content: "first <b> & \u2028 last 🎉"},
		},
		events.IntegrationRegistered{Name: "Partner", RegisteredAt: noon},
		events.IntegrationRenamed{Name: "Partner “B”"},
		events.IntegrationEnabled{},
		events.IntegrationDisabled{},
		events.CapabilityEnabled{Capability: "novels"},
		events.CapabilityDisabled{Capability: "posts"},
		events.RateLimitSet{Operation: "posts", PerMinute: 120},
		events.ReviewModeSet{Review: true},
		events.KeyIssued{
			KeyID: id(5), Prefix: "ngp_AbC1", SHA256: bytes.Repeat([]byte{0xab}, 32), IssuedAt: noon,
			ExpiresAt: new(noon.Add(time.Hour)),
		},
		events.KeyExpirySet{KeyID: id(5), ExpiresAt: noon},
		events.KeyRevoked{KeyID: id(5), Reason: "leaked", RevokedAt: noon},
		events.PersonKeyIssued{
			Name: "Zoë <Ops>", Role: "auditor", KeyID: id(6), Prefix: "nga_AbC1", SHA256: bytes.Repeat([]byte{0xcd}, 32),
			IssuedAt: noon, ExpiresAt: new(noon.Add(time.Hour)),
		},
		events.PersonKeyRevoked{KeyID: id(6), Reason: "left", RevokedAt: noon},
		events.AuthorLinked{
			IntegrationID: integrationID, Reason: "signed in",
			Link: &events.AuthorLink{ExternalUUID: "user/1", MemberID: "member-7"},
		},
		events.AuthorUnlinked{AuthorRef: ref, Reason: "asked for it"},
		events.AuthorBlocked{AuthorRef: ref, Reason: "spam <b>"},
		events.AuthorUnblocked{AuthorRef: ref, Reason: "appeal"},
		events.AuthorPostsHidden{AuthorRef: ref, Until: noon, Reason: "spam"},
		events.AuthorPostsRestored{AuthorRef: ref, Reason: "appeal"},
		events.AuthorErased{
			IntegrationID: integrationID, Reason: "asked for it", Comments: 12, Decisions: 3,
		},
		events.PostHidden{Reason: "insult"},
		events.PostRestored{Reason: "misread"},
		events.ProjectionEventSkipped{
			Projection: "posts", EventID: "comment-1", EventSource: "integrations/1/posts", EventType: "post.imported.v1",
			LogIndex: 734,
			Reason:   "damaged by <hand>",
		},
	}
}

func id(n byte) uuid.UUID { return uuid.UUID{0: n, 6: 0x70, 8: 0x80, 15: n} }

// TestStoredBytes: the program writes the same bytes as ever, and can read them. A golden file has the data on its
// first line, and the personal part, if any, on the second.
func TestStoredBytes(t *testing.T) {
	t.Parallel()
	for _, event := range samples() {
		t.Run(event.Type(), func(t *testing.T) {
			t.Parallel()
			stored, err := events.Encode(event)
			if err != nil {
				t.Fatal(err)
			}
			if stored.Type != event.Type() {
				t.Errorf("stored as %q", stored.Type)
			}
			golden := readGolden(t, stored.Type)
			if diff := cmp.Diff(string(golden.Data), string(stored.Data)); diff != "" {
				t.Errorf("data (-golden +written):\n%s", diff)
			}
			if diff := cmp.Diff(string(golden.Personal), string(stored.Personal)); diff != "" {
				t.Errorf("personal (-golden +written):\n%s", diff)
			}
			golden.Integration = uuid.NullUUID{UUID: id(1), Valid: true} // of the source
			decoded, err := events.Decode(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(event, decoded); diff != "" {
				t.Errorf("decoded golden file (-event +decoded):\n%s", diff)
			}
		})
	}
}

// TestMain runs the tests. With -update it writes missing golden files and fails with their number, because go test
// prints nothing for a package that passes.
func TestMain(m *testing.M) {
	flag.Parse()
	if *update {
		written, err := writeGolden()
		if err != nil {
			fmt.Println("write golden files:", err)
			os.Exit(1)
		}
		if written > 0 {
			fmt.Printf("%d golden files written: compare them with the events, and run the tests again\n", written)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func writeGolden() (written int, err error) {
	for _, event := range samples() {
		stored, err := events.Encode(event)
		if err != nil {
			return written, err
		}
		path := goldenPath(stored.Type)
		if _, err := os.Stat(path); err == nil {
			continue // golden files are never changed
		}
		content := append(stored.Data, '\n')
		if stored.Personal != nil {
			content = append(append(content, stored.Personal...), '\n')
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return written, err
		}
		written++
	}
	return written, nil
}

func readGolden(t *testing.T, eventType string) events.Stored {
	t.Helper()
	content, err := os.ReadFile(goldenPath(eventType))
	if err != nil {
		t.Fatalf("no golden file; after adding an event run `go test ./events -update`: %v", err)
	}
	golden := events.Stored{Type: eventType}
	data, personal, _ := strings.Cut(strings.TrimSuffix(string(content), "\n"), "\n")
	golden.Data = []byte(data)
	if personal != "" {
		golden.Personal = []byte(personal)
	}
	return golden
}

func goldenPath(eventType string) string { return filepath.Join("testdata", eventType+".golden") }

// TestEveryGoldenFileIsReadable: also those of types that have been upcast since.
func TestEveryGoldenFileIsReadable(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(goldenPath("*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) < len(samples()) {
		t.Errorf("%d golden files for %d events", len(paths), len(samples()))
	}
	for _, path := range paths {
		golden := readGolden(t, strings.TrimSuffix(filepath.Base(path), ".golden"))
		if _, err := events.Decode(golden); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestEveryTypeHasASample(t *testing.T) {
	t.Parallel()
	var names []string
	for _, event := range samples() {
		names = append(names, event.Type())
	}
	registered := events.Types()
	slices.Sort(names)
	slices.Sort(registered)
	if diff := cmp.Diff(registered, names); diff != "" {
		t.Errorf("types (-registered +sampled):\n%s", diff)
	}
}
