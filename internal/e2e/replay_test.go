package e2e_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReplayedPostKeepsItsIdentifiers(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewPartner(t)
	title := Unique("Replayed")
	p.Import(t, "parent", Comment(title)).WantPost(t, 201)
	original := Comment(title).With(Fields{
		"chapterNumber": 1.5, "timestamp": "2024-01-01T00:00:00Z", "parent_uuid": "parent",
	})
	want := p.Import(t, "k", original).WantPost(t, 201)
	if want.ParentPostID == nil {
		t.Fatal("no parent")
	}
	want.Created = false

	check := func(t *testing.T, body Fields, mismatch bool) {
		t.Helper()
		response := p.Import(t, "k", body)
		response.WantReplayed(t, true, mismatch)
		if diff := cmp.Diff(want, response.WantPost(t, 200)); diff != "" {
			t.Errorf("replay (-want +got)\n%s", diff)
		}
	}
	for name, test := range map[string]struct {
		changes  Fields
		mismatch bool
	}{
		"the same":       {Fields{}, false},
		"other content":  {Fields{"content": "Edited."}, true},
		"in other words": {Fields{"chapterNumber": json.Number("1.50"), "likes": 3}, false},
		"unknown novel":  {Fields{"novel": Unique("Unknown")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, original.With(test.changes), test.mismatch)
		})
	}
	t.Run("invalid body", func(t *testing.T) {
		t.Parallel()
		p.Import(t, "k", original.With(Fields{"content": ""})).WantInvalid(t, "content")
	})
}

func TestReplayedNovelAppliesNothing(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Late retry")
	want := p.Upsert(t, "create", everything(title)).WantNovel(t, 201)
	update := Fields{"novel": title, "author": "Newer", "synopsis": "", "genres": []string{}}
	p.Upsert(t, "update", update).WantNovel(t, 200)
	newer := stored(title, p.IntegrationID)
	newer.Author, newer.Synopsis, newer.Genres = "Newer", "", nil
	wantStored(t, p.Service, newer)

	want.Created, want.Updated = false, true
	for author, mismatch := range map[string]bool{"Ida Verne": false, "Third": true} {
		response := p.Upsert(t, "create", everything(title).With(Fields{"author": author}))
		response.WantReplayed(t, true, mismatch)
		if diff := cmp.Diff(want, response.WantNovel(t, 200)); diff != "" {
			t.Errorf("replay (-want +got)\n%s", diff)
		}
	}
	wantStored(t, p.Service, newer)
	p.Upsert(t, "update", everything(Unique("Other"))).WantProblem(t, 400, "invalid_idempotency_key")
}
