package e2e_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestMalformedIdempotencyKeys(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Malformed keys")
	for name, values := range map[string][]string{
		"missing":                       nil,
		"empty":                         {""},
		"spaces alone":                  {"   "},
		"empty in quotes":               {`""`},
		"sent twice":                    {"a", "b"},
		"sent twice, the same":          {"a", "a"},
		"256 bytes":                     {strings.Repeat("k", 256)},
		"256 bytes in quotes":           {`"` + strings.Repeat("k", 256) + `"`},
		"space inside":                  {"a b"},
		"space inside quotes":           {`"a b"`},
		"tab inside":                    {"a\tb"},
		"letter outside ASCII":          {"é"},
		"letter outside ASCII, Latin-1": {"\xe9"},
		"emoji in quotes":               {`"🐉"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for path, body := range map[string]Fields{
				NovelsPath: {"novel": title}, PostsPath: Comment(title),
			} {
				request := p.Request(path, "", body.JSON(t))
				if values != nil {
					request.Header = http.Header{"Idempotency-Key": values}
				}
				p.Service.Send(t, request).WantProblem(t, 400, "invalid_idempotency_key")
			}
		})
	}
}

func TestWellFormedIdempotencyKeys(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	var visible strings.Builder
	for c := byte('!'); c <= '~'; c++ {
		visible.WriteByte(c)
	}
	for name, key := range map[string]string{
		"one character":           "k",
		"255 bytes":               strings.Repeat("k", 255),
		"255 bytes in quotes":     `"` + strings.Repeat("q", 255) + `"`,
		"every character":         visible.String(),
		"a UUID":                  "0190c8a4-7b1f-7c2e-9a51-3c5e1f0d2b4a",
		"a path":                  "urn:example:events/42?x=1#y",
		"comma":                   "a,b",
		"quotes in the middle":    `a"b`,
		"looks like a number":     "42",
		"looks like SQL":          "';drop/**/table/**/events;--",
		"percent and backslashes": `%00\n\\`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			title := Unique("Well-formed keys")
			for range 2 { // the second time proves that it is found again
				p.Upsert(t, key, Fields{"novel": title})
				p.Import(t, key, Comment(title))
			}
			novel := p.Upsert(t, key, Fields{"novel": title})
			novel.WantNovel(t, 200)
			novel.WantReplayed(t, true, false)
			post := p.Import(t, key, Comment(title))
			post.WantPost(t, 200)
			post.WantReplayed(t, true, false)
		})
	}
}

func TestQuotedKeyIsThePlainKey(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	for name, forms := range map[string][2]string{
		"plain first":     {"evt-1", `"evt-1"`},
		"quoted first":    {`"evt-2"`, "evt-2"},
		"escaped quote":   {`"evt\"3"`, `evt"3`},
		"escaped slash":   {`"evt\\4"`, `evt\4`},
		"space around it": {"evt-5", `  "evt-5" `}, // RFC 9110 makes it no part of the value
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			title := Unique("Quoted")
			first := p.Import(t, forms[0], Comment(title)).WantPost(t, 201)
			request := p.Request(PostsPath, forms[1], Comment(title).JSON(t))
			request.Beyond = name == "space around it"
			response := p.Service.Send(t, request)
			response.WantReplayed(t, true, false)
			if again := response.WantPost(t, 200); again.PostID != first.PostID {
				t.Errorf("post %s, want %s", again.PostID, first.PostID)
			}
		})
	}
}

func TestKeysAreCaseSensitive(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Case")
	lower := p.Import(t, "evt-a", Comment(title)).WantPost(t, 201)
	if upper := p.Import(t, "EVT-A", Comment(title)).WantPost(t, 201); upper.PostID == lower.PostID {
		t.Error("two keys that differ in case are one")
	}
}

func TestKeysBelongToIntegrationAndOperation(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p, other := s.NewPartner(t), s.NewPartner(t)
	title := Unique("Scoped")
	p.Upsert(t, "k", Fields{"novel": title}).WantNovel(t, 201)
	mine := p.Import(t, "k", Comment(title))
	mine.WantReplayed(t, false, false)
	theirs := other.Import(t, "k", Comment(title))
	theirs.WantReplayed(t, false, false)
	if mine.WantPost(t, 201).PostID == theirs.WantPost(t, 201).PostID {
		t.Error("two integrations share a post because they share a key")
	}
	other.Upsert(t, "k", Fields{"novel": Unique("Scoped too")}).WantNovel(t, 201)
}
