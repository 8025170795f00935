package e2e_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReplayedPostKeepsItsIdentifiers(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewPartner(t)
	title, other := Unique("Replayed"), Unique("Other")
	p.Import(t, "parent", Comment(title)).WantPost(t, 201)
	original := Comment(title).With(Fields{
		"chapterNumber": 1.5, "timestamp": "2024-01-01T00:00:00Z", "parent_uuid": "parent",
	})
	want := p.Import(t, "k", original).WantPost(t, 201)
	if want.ParentPostID == nil {
		t.Fatal("no parent")
	}
	want.Created = false
	p.Upsert(t, Key(), Fields{"novel": other}).WantNovel(t, 201)

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
		"the same":              {Fields{}, false},
		"with an unknown field": {Fields{"likes": 3}, false},
		"other content":         {Fields{"content": "Edited."}, true},
		"other author":          {Fields{"uuid": "somebody"}, true},
		"other username":        {Fields{"username": "Kurtz"}, true},
		"other chapter":         {Fields{"chapterNumber": 2}, true},
		"no chapter":            {Fields{"chapterNumber": nil}, true},
		"other time":            {Fields{"timestamp": "2024-01-01T00:00:01Z"}, true},
		"no parent":             {Fields{"parent_uuid": nil}, true},
		"other novel":           {Fields{"novel": other}, true},
		"unknown novel":         {Fields{"novel": Unique("Unknown")}, true},
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

func TestReplayedPostWhateverHappensToTheNovel(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewPartner(t)
	title := Unique("Rejected later")
	want := p.Import(t, "k", Comment(title)).WantPost(t, 201)
	want.Created = false
	for _, move := range []string{"", "reject", "approve", "publish"} {
		if move != "" {
			s.Moderate(t, move, title)
		}
		response := p.Import(t, "k", Comment(title))
		response.WantReplayed(t, true, false)
		if diff := cmp.Diff(want, response.WantPost(t, 200)); diff != "" {
			t.Errorf("replay after %q (-want +got)\n%s", move, diff)
		}
	}
}

func TestSameCommandInOtherWords(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Same")
	send := func(body string) Response {
		return p.Service.Send(t, p.Request(PostsPath, "k", []byte(body)))
	}
	send(`{"uuid":"m","username":"Marlow","novel":"`+title+`","content":"x","chapterNumber":100}`).WantPost(t, 201)
	for _, body := range []string{
		"{ \"content\": \"x\",\n\"chapterNumber\": 100, \"novel\": \"" + title + `", "username": "Marlow", "uuid": "m" }`,
		`{"uuid":"\u006d","username":"Marlow","novel":"` + title + `","content":"\u0078","chapterNumber":100}`,
		`{"uuid":"m","username":"Marlow","novel":"` + title +
			`","content":"x","chapterNumber":100,"timestamp":null,"parent_uuid":null}`,
		`{"uuid":"m","username":"Marlow","novel":"` + title + `","content":"x","chapterNumber":1e2}`,
		`{"uuid":"m","username":"Marlow","novel":"` + title + `","content":"x","chapterNumber":100.0}`,
	} {
		response := send(body)
		response.WantPost(t, 200)
		response.WantReplayed(t, true, false)
	}
}

func TestReplayedNovelAppliesNothing(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Late retry")
	created := p.Upsert(t, "create", everything(title)).WantNovel(t, 201)
	p.Upsert(t, "update", Fields{"novel": title, "author": "Newer", "genres": []string{}}).WantNovel(t, 200)
	newer := stored(title, p.IntegrationID)
	newer.Author, newer.Genres = "Newer", nil

	want := created
	want.Created, want.Updated = false, true
	for name, test := range map[string]struct {
		key      string
		body     Fields
		mismatch bool
	}{
		"creation":              {"create", everything(title), false},
		"creation, other body":  {"create", everything(title).With(Fields{"author": "Third"}), true},
		"creation, title alone": {"create", Fields{"novel": title}, true},
		"update": {
			"update", Fields{"novel": title, "author": "Newer", "genres": []string{}}, false,
		},
		"update, genres omitted": {"update", Fields{"novel": title, "author": "Newer"}, true},
		"update, null is omitted": {
			"update", Fields{"novel": title, "author": "Newer", "genres": []string{}, "language": nil}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			response := p.Upsert(t, test.key, test.body)
			response.WantReplayed(t, true, test.mismatch)
			if diff := cmp.Diff(want, response.WantNovel(t, 200)); diff != "" {
				t.Errorf("replay (-want +got)\n%s", diff)
			}
			wantStored(t, p.Service, newer)
		})
	}
}

func TestEmptyUpdateUsesItsKey(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Empty update")
	p.Upsert(t, Key(), everything(title)).WantNovel(t, 201)
	for i, replayed := range []bool{false, true, true} {
		response := p.Upsert(t, "empty", everything(title)) // changes nothing
		response.WantReplayed(t, replayed, false)
		if novel := response.WantNovel(t, 200); !novel.Updated {
			t.Errorf("attempt %d: %+v, want updated", i, novel)
		}
	}
	p.Upsert(t, "empty", Fields{"novel": Unique("Other")}).WantProblem(t, 400, "invalid_idempotency_key")
}

func TestKeyOfANovelWithAnotherTitle(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewPartner(t)
	title, own, canonical := Unique("Keyed"), Unique("Own"), Unique("Canonical")
	p.Upsert(t, "k", everything(title)).WantNovel(t, 201)
	p.Upsert(t, Key(), everything(own)).WantNovel(t, 201)
	s.Moderate(t, "publish", canonical)
	unknown := Unique("Unknown")
	for _, other := range []string{unknown, own, canonical} {
		p.Upsert(t, "k", everything(other)).WantProblem(t, 400, "invalid_idempotency_key")
	}
	s.Refused(t, "novel", "show", unknown)
	again := p.Upsert(t, "k", everything("  "+title+" ")) // the same title, spelled differently
	again.WantNovel(t, 200)
	if again.Header.Get("Idempotent-Replayed") != "true" {
		t.Error("not a replay")
	}
}
