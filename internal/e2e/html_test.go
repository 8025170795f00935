package e2e_test

import (
	"testing"
)

func TestHTMLInContentIsRefused(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	for _, content := range []string{ // internal/markup tests what is HTML in full
		"<b>bold</b>", "text </p> text", "<br/>", "<SCRIPT SRC=//example.com/x.js>", "<svg/onload=alert(1)>", "a<b and c>d",
		"<!-- a comment -->", "<!doctype html>", "<System> and then <em>emphasis</em>",
	} {
		t.Run(content, func(t *testing.T) {
			t.Parallel()
			fields := Comment(Unique("HTML")).With(Fields{"content": content})
			p.Import(t, Key(), fields).WantInvalid(t, "content")
		})
	}
}

func TestTextThatLooksLikeHTMLIsKept(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	for _, content := range []string{
		"a < b", "a<b", "<3", "<System: level up!>", "< b >", "&lt;b&gt;", "AT&T", "<<Fireball>>", "x <", "<_<",
	} {
		t.Run(content, func(t *testing.T) {
			t.Parallel()
			fields := Comment(Unique("Text")).With(Fields{"content": content})
			post := p.Import(t, Key(), fields).WantPost(t, 201)
			var stored string
			p.Service.Projected(t, []any{&stored}, "SELECT content FROM analytics.posts WHERE post_id = $1", post.PostID)
			if stored != content {
				t.Errorf("stored %q, want %q", stored, content)
			}
		})
	}
}
