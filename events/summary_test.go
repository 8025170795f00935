package events_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"novelgate/events"
)

func TestSummary(t *testing.T) {
	t.Parallel()
	for want, event := range map[string]events.Event{
		"":                        events.NovelCreated{Title: "Emma", State: "approved"},
		"author, genres; by mail": events.NovelUpdated{Author: new("Jane"), Genres: &[]string{}, Reason: "by mail"},
		"no change":               events.NovelUpdated{},
		"spoils the end":          events.PostHidden{Reason: "spoils the end"},
		"spam; 3 readers":         events.PostReported{Reason: "spam", Reports: 3},
		"abuse; 1 reader":         events.PostReported{Reason: "abuse", Reports: 1},
		"new text; chapter 3 → 4.5": events.PostEdited{
			NewText: true, NewChapter: true, FormerChapter: jsontext.Value("3"), Chapter: jsontext.Value("4.5"),
		},
		"chapter none → 4":                    events.PostEdited{NewChapter: true, Chapter: jsontext.Value("4")},
		"chapter 4 → none":                    events.PostEdited{NewChapter: true, FormerChapter: jsontext.Value("4")},
		"new text":                            events.PostEdited{NewText: true, Chapter: jsontext.Value("4")},
		"posts: 60 per minute":                events.RateLimitSet{Operation: "posts", PerMinute: 60},
		"import":                              events.CapabilityEnabled{Capability: "import"},
		"off":                                 events.ReviewModeSet{},
		"Fans":                                events.IntegrationRenamed{Name: "Fans"},
		"key ngk_abcd":                        events.KeyIssued{Prefix: "ngk_abcd"},
		"repeated spam":                       events.AuthorBlocked{Reason: "repeated spam"},
		"no change: a later edit came before": events.PostEdited{ChapterNumber: jsontext.Value("2")},
	} {
		stored, err := events.Encode(event)
		if err != nil {
			t.Fatal(err)
		}
		if got := events.Summary(stored.Type, stored.Data); got != want {
			t.Errorf("%s: %q, want %q", stored.Data, got, want)
		}
	}
	if got := events.Summary("post.hidden.v9", []byte(`{"reason":{"text":"new"}}`)); got != "" {
		t.Errorf("of a newer type: %q", got)
	}
}
