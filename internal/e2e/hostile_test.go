package e2e_test

import (
	"strings"
	"testing"
)

// nasty returns what breaks naive text handling. Each is repeated until the body is almost full.
func nasty() map[string]string {
	return map[string]string{
		"combining marks":         "\u0301\u0323\u0489",
		"marks on one letter":     "z\u0351\u036b\u0343\u036a\u0302",
		"right-to-left override":  "\u202eabc\u202c\u2066x\u2069",
		"joined emoji":            "👩\u200d👩\u200d👧\u200d👦🏳\ufe0f\u200d🌈",
		"noncharacters":           "\ufffe\uffff\U0001fffe\U0010ffff",
		"controls":                "\x01\x02\x08\x0b\x0c\x1b[31m\x7f\u0085\u009f",
		"line ends":               "x\r\n\r\u2028\u2029\n",
		"expands when decomposed": "\ufdfa\u0390\u1e9b\u0323",
		"quotes and backslashes":  `'"\` + "`" + `$$;--%s%n{{.}}${x}<`,
	}
}

func TestHostileUnicodeIsStoredAsItCame(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Hostile")
	for name, unit := range nasty() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fields := Comment(title).With(Fields{"content": "x"})
			size := len(fields.With(Fields{"content": unit}).JSON(t)) - len(fields.JSON(t)) + 1
			repeat := min((maxBody-len(fields.JSON(t)))/size, 20_000/len([]rune(unit))-1)
			content := "x" + strings.Repeat(unit, repeat)
			post := p.Import(t, Key(), fields.With(Fields{"content": content})).WantPost(t, 201)
			var stored string
			p.Service.Projected(t, []any{&stored}, "SELECT content FROM analytics.posts WHERE post_id = $1", post.PostID)
			if stored != content {
				t.Errorf("stored %.60q…, want %.60q…", stored, content)
			}
		})
	}
}

func TestHostileUnicodeInTitles(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	for name, unit := range nasty() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := Unique("T")
			title := prefix + strings.Repeat(unit, (300-len(prefix))/len([]rune(unit)))
			created := p.Upsert(t, Key(),
				Fields{"novel": title, "author": "a" + unit, "genres": []string{"g" + unit}}).WantNovel(t, 201)
			upper := strings.ToUpper(prefix) + title[len(prefix):]
			again := p.Upsert(t, Key(), Fields{"novel": upper}).WantNovel(t, 200)
			if again.NovelID != created.NovelID {
				t.Errorf("novel %s, want %s", again.NovelID, created.NovelID)
			}
			p.Import(t, Key(), Comment(title).With(Fields{
				"uuid":     unit,
				"username": "u" + unit,
			})).WantPost(t, 201)
		})
	}
}
