package novel_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/events"
)

var (
	owner    = uuid.UUID{1}
	stranger = uuid.UUID{2}
)

// given returns a novel with a history.
func given(history ...events.Event) novel.Novel {
	n := novel.Novel{ID: uuid.UUID{9}}
	for _, event := range history {
		n = n.Apply(event)
	}
	return n
}

func created(state novel.State) events.NovelCreated {
	e := events.NovelCreated{Title: "Genji", Slug: "genji", Author: "Unknown", State: string(state)}
	if state != novel.Published {
		e.OwnerID = &owner
	}
	return e
}

// every returns fields that all have a value.
func every(value string) novel.Fields {
	return novel.Fields{
		Author: &value, Synopsis: new("s" + value), CoverURL: new("c" + value), Language: new("l" + value),
		ReadingStatus: new("r" + value), Genres: new([]string{"g" + value}),
	}
}

// updated returns the event that sets every field.
func updated(value string) events.NovelUpdated {
	f := every(value)
	return events.NovelUpdated{
		Author: f.Author, Synopsis: f.Synopsis, CoverURL: f.CoverURL, Language: f.Language, ReadingStatus: f.ReadingStatus,
		Genres: f.Genres,
	}
}

func TestUpsert(t *testing.T) {
	t.Parallel()
	full := created(novel.Approved)
	full.Author, full.Synopsis, full.Genres = "Murasaki", "A prince.", []string{"court", "romance"}

	for name, c := range map[string]struct {
		given   []events.Event
		when    novel.Upsert
		outcome novel.Outcome
		then    events.Event
		refusal error
	}{
		"unknown title, title alone": {
			when: novel.Upsert{IntegrationID: owner, Title: "Genji", Slug: "genji"}, outcome: novel.Created,
			then: created(novel.Approved),
		},
		"unknown title, all fields": {
			when: novel.Upsert{IntegrationID: owner, Title: "Genji", Slug: "genji", Fields: novel.Fields{
				Author: new("M"), Synopsis: new("S"), CoverURL: new("https://example.com/c"), Language: new("ja"),
				ReadingStatus: new("completed"), Genres: new([]string{"g"}),
			}},
			outcome: novel.Created,
			then: events.NovelCreated{
				Title: "Genji", Slug: "genji", Author: "M", Synopsis: "S", CoverURL: "https://example.com/c", Language: "ja",
				ReadingStatus: "completed", Genres: []string{"g"}, OwnerID: &owner, State: "approved",
			},
		},
		"unknown title, under review": {
			when: novel.Upsert{IntegrationID: owner, Review: true, Title: "Genji", Slug: "genji"}, outcome: novel.Created,
			then: created(novel.Pending),
		},
		"own novel, nothing supplied": {
			given: []events.Event{full}, when: novel.Upsert{IntegrationID: owner}, outcome: novel.Updated,
			then: events.NovelUpdated{},
		},
		"own novel, same values": {
			given: []events.Event{full},
			when: novel.Upsert{
				IntegrationID: owner, Fields: novel.Fields{Author: new("Murasaki"), Genres: new([]string{"court", "romance"})},
			},
			outcome: novel.Updated, then: events.NovelUpdated{},
		},
		"own novel, some changed": {
			given: []events.Event{full},
			when: novel.Upsert{
				IntegrationID: owner,
				Fields: novel.Fields{
					Author: new("Murasaki"), Language: new("ja"), Genres: new([]string{"romance", "court"}),
				},
			},
			outcome: novel.Updated, then: events.NovelUpdated{Language: new("ja"), Genres: new([]string{"romance", "court"})},
		},
		"own novel, all changed": {
			given: []events.Event{full}, when: novel.Upsert{IntegrationID: owner, Fields: every("A")},
			outcome: novel.Updated, then: updated("A"),
		},
		"own novel, all changed before": {
			given:   []events.Event{full, updated("A"), updated("B")},
			when:    novel.Upsert{IntegrationID: owner, Fields: every("B")},
			outcome: novel.Updated, then: events.NovelUpdated{},
		},
		"own novel, cleared": {
			given: []events.Event{full},
			when: novel.Upsert{
				IntegrationID: owner, Fields: novel.Fields{Synopsis: new(""), Genres: new([]string{}), Language: new("")},
			},
			outcome: novel.Updated, then: events.NovelUpdated{Synopsis: new(""), Genres: new([]string{})},
		},
		"own novel, cleared before": {
			given:   []events.Event{full, events.NovelUpdated{Genres: new([]string{})}},
			when:    novel.Upsert{IntegrationID: owner, Fields: novel.Fields{Genres: new([]string{})}},
			outcome: novel.Updated, then: events.NovelUpdated{},
		},
		"own novel, pending": {
			given:   []events.Event{created(novel.Pending)},
			when:    novel.Upsert{IntegrationID: owner, Fields: novel.Fields{Language: new("ja")}},
			outcome: novel.Updated, then: events.NovelUpdated{Language: new("ja")},
		},
		"host's novel": {
			given:   []events.Event{created(novel.Published)},
			when:    novel.Upsert{IntegrationID: owner, Fields: novel.Fields{Language: new("ja")}},
			outcome: novel.Canonical,
		},
		"own novel that the host adopted": {
			given:   []events.Event{full, events.NovelPublished{}},
			when:    novel.Upsert{IntegrationID: owner, Fields: novel.Fields{Author: new("X")}},
			outcome: novel.Canonical,
		},
		"another integration's novel": {
			given: []events.Event{full}, when: novel.Upsert{IntegrationID: stranger, Fields: novel.Fields{Author: new("X")}},
			outcome: novel.Foreign,
		},
		"another integration's pending novel": {
			given: []events.Event{created(novel.Pending)}, when: novel.Upsert{IntegrationID: stranger}, outcome: novel.Foreign,
		},
		"rejected, by its owner": {
			given: []events.Event{full, events.NovelRejected{}}, when: novel.Upsert{IntegrationID: owner},
			refusal: novel.ErrRejected,
		},
		"rejected, by another integration": {
			given: []events.Event{full, events.NovelRejected{}}, when: novel.Upsert{IntegrationID: stranger},
			refusal: novel.ErrRejected,
		},
		"rejected and approved again": {
			given:   []events.Event{full, events.NovelRejected{}, events.NovelApproved{}},
			when:    novel.Upsert{IntegrationID: owner},
			outcome: novel.Updated, then: events.NovelUpdated{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outcome, event, err := given(c.given...).Upsert(c.when)
			if !errors.Is(err, c.refusal) {
				t.Fatalf("error %v, want %v", err, c.refusal)
			}
			if outcome != c.outcome {
				t.Errorf("outcome %d, want %d", outcome, c.outcome)
			}
			if diff := cmp.Diff(c.then, event); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUpsertKeepsItsDistance: a decision shares no memory with its command.
func TestUpsertKeepsItsDistance(t *testing.T) {
	t.Parallel()
	genres := []string{"a", "b"}
	n := given(created(novel.Approved)).Apply(events.NovelUpdated{Genres: &genres})
	genres[0] = "changed"
	if diff := cmp.Diff([]string{"a", "b"}, n.Details.Genres); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSlug(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("0123abcd-0000-5000-8000-000000000000")
	for name, c := range map[string]struct {
		spelled string
		taken   []string
		want    string
	}{
		"free":             {"genji", nil, "genji"},
		"taken":            {"genji", []string{"genji"}, "genji-0123abcd"},
		"taken twice":      {"genji", []string{"genji", "genji-0123abcd"}, "genji-0123abcd-0000-5000-8000-000000000000"},
		"nothing to spell": {"", nil, "novel-0123abcd"},
		"nothing, taken":   {"", []string{"novel-0123abcd"}, "novel-0123abcd-0000-5000-8000-000000000000"},
		"all taken: last wins": {
			"",
			[]string{"novel-0123abcd", "novel-0123abcd-0000-5000-8000-000000000000"},
			"novel-0123abcd-0000-5000-8000-000000000000",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			taken := map[string]struct{}{}
			for _, slug := range c.taken {
				taken[slug] = struct{}{}
			}
			if diff := cmp.Diff(c.want, novel.PickSlug(novel.SlugCandidates(c.spelled, id), taken)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
