package client_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"novelgate/client"
	"novelgate/commands/request"
)

func TestPlainText(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"":                             "",
		"It&#39;s &quot;fine&quot;":    `It's "fine"`,
		"a  &amp;\n b&nbsp;c &amp;lt;": "a & b c &lt;",
		"<p>One.</p><p>Two.<br>Three.</p>\n<div>Four.</div><div>Five.</div>": "One.\n\nTwo.\nThree.\n\nFour.\nFive.",
		"<ul><li>a</li><li>b</li></ul>end":                                   "- a\n- b\n\nend",
		"a<br><br><br/>b":                                                    "a\n\nb",
		"<b>bo</b>ld <i class='x>y'>it</i>":                                  "bold it",
		`See <a href="https://a.example/?x=1&amp;y=2">this <b>page</b></a>!`: "See this page (https://a.example/?x=1&y=2)!",
		`<a href='https://a.example'>https://a.example</a>`:                  "https://a.example",
		`<a href=https://a.example>open`:                                     "open (https://a.example)",
		`<a href="javascript:alert(1)">x</a> <a name="y">z</a>`:              "x z",
		`<img src="x" alt="&#128512;"> <img src="y">`:                        "😀",
		"a<script>if (1 < 2) { x('</p>') }</SCRIPT >b<style>p {}</style>c":   "abc",
		"a<!-- <b> -->b<!doctype html><?xml x?>c<![CDATA[d]]>e":              "abce",
		"<table><tr><td>a<td>b<tr><td>c</table>":                             "a b\nc",
		"<pre>  a\n    b</pre>":                                              "  a\n    b",
		"use &lt;b&gt;, &lt;/b&gt; and &lt;!-- x --&gt;":                     "use < b>, < /b> and < !-- x -->",
		"a < b, 1<2, <3 and </3":                                             "a < b, 1<2, <3 and </3",
		"never closed <b":                                                    "never closed < b",
		"<p title=\"never closed>text":                                       "text",
		"a<script>never closed":                                              "a",
		"*Markdown* and [b]BBCode[/b] stay":                                  "*Markdown* and [b]BBCode[/b] stay",
		"a\x00b\x1bc\xff\u202e":                                              "abc\ufffd\u202e",
	} {
		if got := client.PlainText(source); got != want {
			t.Errorf("%q:\n%q, want\n%q", source, got, want)
		}
	}
}

// hostile are parts of hostile texts.
var hostile = []string{
	"<div>", "<a href=https://a.example>", "<a href=\"", "<a ='>", "<", "<!--", "<script>", "</", "&", "&lt;",
	"&lt;b&gt;", "<b x=\"'",
	"<pre>\n", "<li>", "&#60;!", "<\x00b>", "&lt;<b></b>b&gt;", "<![CDATA[", "\xff", "<br>",
}

// TestPlainTextIsStorable: also HTML of the size of a request becomes text that the service does not refuse as HTML.
func TestPlainTextIsStorable(t *testing.T) {
	t.Parallel()
	const size = 32 << 10
	for _, part := range hostile {
		checkPlainText(t, strings.Repeat(part, size/len(part)))
	}
}

// FuzzPlainText: so does any other HTML.
func FuzzPlainText(f *testing.F) {
	for _, part := range hostile {
		f.Add(part + part + "text" + part)
	}
	f.Fuzz(func(t *testing.T, source string) { checkPlainText(t, source) })
}

func checkPlainText(t *testing.T, source string) {
	t.Helper()
	text := client.PlainText(source)
	if !utf8.ValidString(text) {
		t.Errorf("%.80q is no UTF-8", text)
	}
	body, err := json.Marshal(client.Post{UUID: "u", Username: "n", Novel: "N", Content: text})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := request.DecodePost(body, time.Now()); err != nil && strings.Contains(err.Error(), "HTML") {
		t.Errorf("%.80q: %v", text, err)
	}
}
