package blackbox_test

import (
	"testing"

	"novelgate/internal/blackbox"
)

func TestHTMLInContentIsRefused(t *testing.T) {
	t.Parallel()
	p := blackbox.Shared(t).NewPartner(t)
	for _, content := range []string{
		"<b>bold</b>", "<B>bold", "text </p> text", "<br>", "<br/>", "<br />", "<p\nclass='x'>",
		"<a href=\"https://example.com\">x</a>",
		"<script>alert(1)</script>", "<SCRIPT SRC=//example.com/x.js>", "<img src=x onerror=alert(1)>",
		"<svg/onload=alert(1)>",
		"<iframe src=x>", "<style>*{}</style>", "<h1>Title</h1>", "<table>", "<textarea>", "<video>", "<math>",
		"before <i>inside</i> after", "a<b and c>d", "<!-- a comment -->", "<!DOCTYPE html>", "<!doctype html>", "<html>",
		"<body>",
		"<System> and then <em>emphasis</em>", "x < y but <u>z</u>",
	} {
		t.Run(content, func(t *testing.T) {
			t.Parallel()
			fields := blackbox.Comment(blackbox.Unique("HTML")).With(blackbox.Fields{"content": content})
			p.Import(t, blackbox.Key(), fields).WantInvalid(t, "content")
		})
	}
}

func TestTextThatLooksLikeHTMLIsKept(t *testing.T) {
	t.Parallel()
	p := blackbox.Shared(t).NewPartner(t)
	for _, content := range []string{
		"a < b", "a<b", "1 < 2 > 0", "I <3 this", "<3", "<System>", "<System: level up!>", "<Skill acquired>",
		"<status window>",
		"<Level 5>", "<Ding!>", "< b >", "<>", "->", "<-", "=<", "&lt;b&gt;", "&amp;", "AT&T", "if (a < b && c > d)",
		"<<Fireball>>", "\"<\"",
		"<", ">", "x <", "</3", "<_<", ">_>", "<Heavenly Demon>",
	} {
		t.Run(content, func(t *testing.T) {
			t.Parallel()
			fields := blackbox.Comment(blackbox.Unique("Text")).With(blackbox.Fields{"content": content})
			post := p.Import(t, blackbox.Key(), fields).WantPost(t, 201)
			var stored string
			p.Service.Projected(t, []any{&stored}, "SELECT content FROM analytics.posts WHERE post_id = $1", post.PostID)
			if stored != content {
				t.Errorf("stored %q, want %q", stored, content)
			}
		})
	}
}
