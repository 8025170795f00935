package blackbox_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/internal/blackbox"
)

func TestReplayedPostKeepsItsIdentifiers(t *testing.T) {
	t.Parallel()
	s := blackbox.Shared(t)
	p := s.NewPartner(t)
	title, other := blackbox.Unique("Replayed"), blackbox.Unique("Other")
	p.Import(t, "parent", blackbox.Comment(title)).WantPost(t, 201)
	original := blackbox.Comment(title).With(blackbox.Fields{
		"chapterNumber": 1.5, "timestamp": "2024-01-01T00:00:00Z", "parent_uuid": "parent",
	})
	want := p.Import(t, "k", original).WantPost(t, 201)
	if want.ParentPostID == nil {
		t.Fatal("no parent")
	}
	want.Created = false
	p.Upsert(t, blackbox.Key(), blackbox.Fields{"novel": other}).WantNovel(t, 201)

	check := func(t *testing.T, body blackbox.Fields, mismatch bool) {
		t.Helper()
		response := p.Import(t, "k", body)
		response.WantReplayed(t, true, mismatch)
		if diff := cmp.Diff(want, response.WantPost(t, 200)); diff != "" {
			t.Errorf("replay (-want +got)\n%s", diff)
		}
	}
	for name, test := range map[string]struct {
		changes  blackbox.Fields
		mismatch bool
	}{
		"the same":              {blackbox.Fields{}, false},
		"with an unknown field": {blackbox.Fields{"likes": 3}, false},
		"other content":         {blackbox.Fields{"content": "Edited."}, true},
		"other author":          {blackbox.Fields{"uuid": "somebody"}, true},
		"other username":        {blackbox.Fields{"username": "Kurtz"}, true},
		"other chapter":         {blackbox.Fields{"chapterNumber": 2}, true},
		"no chapter":            {blackbox.Fields{"chapterNumber": nil}, true},
		"other time":            {blackbox.Fields{"timestamp": "2024-01-01T00:00:01Z"}, true},
		"no parent":             {blackbox.Fields{"parent_uuid": nil}, true},
		"other novel":           {blackbox.Fields{"novel": other}, true},
		"unknown novel":         {blackbox.Fields{"novel": blackbox.Unique("Unknown")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, original.With(test.changes), test.mismatch)
		})
	}
	t.Run("invalid body", func(t *testing.T) {
		t.Parallel()
		p.Import(t, "k", original.With(blackbox.Fields{"content": ""})).WantInvalid(t, "content")
	})
}

func TestReplayedPostWhateverHappensToTheNovel(t *testing.T) {
	t.Parallel()
	s := blackbox.Shared(t)
	p := s.NewPartner(t)
	title := blackbox.Unique("Rejected later")
	want := p.Import(t, "k", blackbox.Comment(title)).WantPost(t, 201)
	want.Created = false
	for _, move := range []string{"", "reject", "approve", "publish"} {
		if move != "" {
			s.Moderate(t, move, title)
		}
		response := p.Import(t, "k", blackbox.Comment(title))
		response.WantReplayed(t, true, false)
		if diff := cmp.Diff(want, response.WantPost(t, 200)); diff != "" {
			t.Errorf("replay after %q (-want +got)\n%s", move, diff)
		}
	}
}

func TestSameCommandInOtherWords(t *testing.T) {
	t.Parallel()
	p := blackbox.Shared(t).NewPartner(t)
	title := blackbox.Unique("Same")
	send := func(body string) blackbox.Response {
		return p.Service.Send(t, p.Request(blackbox.PostsPath, "k", []byte(body)))
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
	p := blackbox.Shared(t).NewPartner(t)
	title := blackbox.Unique("Late retry")
	created := p.Upsert(t, "create", everything(title)).WantNovel(t, 201)
	p.Upsert(t, "update", blackbox.Fields{"novel": title, "author": "Newer", "genres": []string{}}).WantNovel(t, 200)
	newer := stored(title, p.IntegrationID)
	newer.Author, newer.Genres = "Newer", nil

	want := created
	want.Created, want.Updated = false, true
	for name, test := range map[string]struct {
		key      string
		body     blackbox.Fields
		mismatch bool
	}{
		"creation":              {"create", everything(title), false},
		"creation, other body":  {"create", everything(title).With(blackbox.Fields{"author": "Third"}), true},
		"creation, title alone": {"create", blackbox.Fields{"novel": title}, true},
		"update": {
			"update", blackbox.Fields{"novel": title, "author": "Newer", "genres": []string{}}, false,
		},
		"update, genres omitted": {"update", blackbox.Fields{"novel": title, "author": "Newer"}, true},
		"update, null is omitted": {
			"update", blackbox.Fields{"novel": title, "author": "Newer", "genres": []string{}, "language": nil}, false,
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
	p := blackbox.Shared(t).NewPartner(t)
	title := blackbox.Unique("Empty update")
	p.Upsert(t, blackbox.Key(), everything(title)).WantNovel(t, 201)
	for i, replayed := range []bool{false, true, true} {
		response := p.Upsert(t, "empty", everything(title)) // changes nothing
		response.WantReplayed(t, replayed, false)
		if novel := response.WantNovel(t, 200); !novel.Updated {
			t.Errorf("attempt %d: %+v, want updated", i, novel)
		}
	}
	p.Upsert(t, "empty", blackbox.Fields{"novel": blackbox.Unique("Other")}).WantProblem(t, 400, "invalid_idempotency_key")
}

func TestKeyOfANovelWithAnotherTitle(t *testing.T) {
	t.Parallel()
	s := blackbox.Shared(t)
	p := s.NewPartner(t)
	title, own, canonical := blackbox.Unique("Keyed"), blackbox.Unique("Own"), blackbox.Unique("Canonical")
	p.Upsert(t, "k", everything(title)).WantNovel(t, 201)
	p.Upsert(t, blackbox.Key(), everything(own)).WantNovel(t, 201)
	s.Moderate(t, "publish", canonical)
	unknown := blackbox.Unique("Unknown")
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
