package history_test

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/events"
	"novelgate/readapi/history"
)

var (
	partner = uuid.MustParse("01000000-0000-7000-8000-000000000001")
	id      = uuid.MustParse("01000000-0000-7000-8000-000000000002")
	noon    = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
)

// recorded returns a history: event n was recorded n minutes after noon.
func recorded(list ...events.Event) []events.Recorded {
	past := make([]events.Recorded, len(list))
	for i, event := range list {
		past[i] = events.Recorded{
			StreamID: id, StreamVersion: i + 1, Event: event, RecordedAt: noon.Add(time.Duration(i+1) * time.Minute),
			Metadata: events.Metadata{Actor: "staff:ada"},
		}
	}
	return past
}

func pointer[T any](value T) *T { return &value }

var novelHistory = recorded(
	events.NovelCreated{
		Title: "Genji", Slug: "genji", Author: "Unknown", OwnerID: &partner, State: "pending", Genres: []string{"classic"},
	},
	events.NovelUpdated{Author: pointer("Murasaki"), Genres: pointer([]string{"classic", "court"})},
	events.NovelApproved{Reason: "good"},
	events.NovelPublished{},
)

func TestNovel(t *testing.T) {
	t.Parallel()
	trace := func(version int) history.Trace {
		return history.Trace{
			Version: version, ChangedAt: noon.Add(time.Duration(version) * time.Minute), ChangedBy: "staff:ada",
		}
	}
	before := novel.Details{Author: "Unknown", Genres: []string{"classic"}}
	after := novel.Details{Author: "Murasaki", Genres: []string{"classic", "court"}}
	for version, want := range []history.Novel{
		{NovelID: id},
		{
			NovelID: id, Title: "Genji", Slug: "genji", State: novel.Pending, Owner: partner.String(), Details: before,
			Trace: trace(1),
		},
		{
			NovelID: id, Title: "Genji", Slug: "genji", State: novel.Pending, Owner: partner.String(), Details: after,
			Trace: trace(2),
		},
		{
			NovelID: id, Title: "Genji", Slug: "genji", State: novel.Approved, Owner: partner.String(), Details: after,
			Trace: trace(3),
		},
		{NovelID: id, Title: "Genji", Slug: "genji", State: novel.Published, Owner: "host", Details: after, Trace: trace(4)},
	} {
		if diff := cmp.Diff(want, history.NovelOf(id, novelHistory[:version])); diff != "" {
			t.Errorf("version %d (-want +got):\n%s", version, diff)
		}
	}
}

func TestIntegration(t *testing.T) {
	t.Parallel()
	keyID := uuid.MustParse("01000000-0000-7000-8000-000000000003")
	past := recorded(
		events.IntegrationRegistered{Name: "Fan Site"},
		events.CapabilityEnabled{Capability: "posts"},
		events.CapabilityEnabled{Capability: "novels"},
		events.RateLimitSet{Operation: "posts", PerMinute: 7},
		events.KeyIssued{KeyID: keyID, IssuedAt: noon},
		events.KeyRevoked{KeyID: keyID},
		events.IntegrationDisabled{},
	)
	want := history.Integration{
		IntegrationID: id, Name: "Fan Site", Capabilities: []string{"novels", "posts"}, PostsPerMinute: 7,
		NovelsPerMinute: 60, LinesPerMinute: 60_000,
		Keys:  []history.Key{{KeyID: keyID, Revoked: true}},
		Trace: history.Trace{Version: 7, ChangedAt: noon.Add(7 * time.Minute), ChangedBy: "staff:ada"},
	}
	if diff := cmp.Diff(want, history.IntegrationOf(id, past)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestThread(t *testing.T) {
	t.Parallel()
	novelID, postID := uuid.New(), uuid.New()
	past := recorded(
		events.ThreadOpened{NovelID: novelID},
		events.PostImported{
			IntegrationID: partner, NovelID: novelID, ThreadID: id, WrittenAt: noon,
			Comment: &events.Comment{ExternalUUID: "u", Username: "Ada", Content: "Good"},
		},
		events.PostImported{
			IntegrationID: partner, NovelID: novelID, ThreadID: id, WrittenAt: noon, ParentPostID: &postID,
			ChapterNumber: jsontext.Value("1.5"),
		},
		events.NovelRejected{}, // an event of another kind
	)
	past[1].StreamID, past[1].StreamVersion = postID, 1
	past[2].StreamID, past[2].StreamVersion = partner, 1
	past[3].StreamID, past[3].StreamVersion = postID, 2
	want := history.Thread{
		ThreadID: id, NovelID: novelID,
		Posts: []history.Post{
			{
				PostID: postID, IntegrationID: partner, WrittenAt: noon, RecordedAt: noon.Add(2 * time.Minute), Username: "Ada",
				Content: "Good", LastEvent: "novel.rejected.v1",
			},
			// erased
			{
				PostID: partner, ParentPostID: &postID, IntegrationID: partner, ChapterNumber: jsontext.Value("1.5"),
				WrittenAt: noon, RecordedAt: noon.Add(3 * time.Minute), LastEvent: "post.imported.v1",
			},
		},
		Trace: history.Trace{Version: 4, ChangedAt: noon.Add(4 * time.Minute), ChangedBy: "staff:ada"},
	}
	if diff := cmp.Diff(want, history.ThreadOf(novelID, past)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestUntil: a moment includes its own events, and has a prefix of each stream although a clock was set back.
func TestUntil(t *testing.T) {
	t.Parallel()
	at := func(name string, stream uuid.UUID, second int) events.Recorded {
		return events.Recorded{ID: name, StreamID: stream, RecordedAt: noon.Add(time.Duration(second) * time.Second)}
	}
	var got []string
	for _, r := range history.Until(noon.Add(5*time.Second), []events.Recorded{
		at("before", id, 4), at("at", id, 5), at("other, after", partner, 6), at("after", id, 9),
		at("other, set back", partner, 1), at("set back", id, 1), at("third", uuid.Nil, 1),
	}) {
		got = append(got, r.ID)
	}
	if diff := cmp.Diff([]string{"before", "at", "third"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
