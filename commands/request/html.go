package request

import (
	"strings"

	"golang.org/x/net/html"
)

// findHTML reports the first HTML markup in s, as an HTML tokenizer sees it. markup is its name, one of a fixed list of
// short names and never a part of s: "<b>", "</b>", "<!-- comment -->", "<!DOCTYPE>".
//
// HTML is the start or end tag of an element of the HTML standard (obsolete ones included) or of <svg> and <math>, a
// comment or a CDATA section, closed or not, and a doctype, another declaration (<!ENTITY …>) or a processing
// instruction (<?php … ?>). Everything else is text: "a < b", "<3", "</3", "<-", "<System>", "<my-widget>",
// "<me@example.com>", entities such as "&amp;", and a tag that is never closed ("<b").
func findHTML(s string) (markup string, found bool) {
	at := strings.IndexByte(s, '<')
	if at < 0 {
		return "", false
	}
	for z := html.NewTokenizer(strings.NewReader(s[at:])); ; {
		kind := z.Next()
		closed := strings.HasSuffix(string(z.Raw()), ">")
		switch kind {
		case html.ErrorToken:
			return "", false
		case html.StartTagToken, html.SelfClosingTagToken:
			if name, _ := z.TagName(); elements[string(name)] {
				return "<" + string(name) + ">", true
			}
		case html.EndTagToken:
			if name, _ := z.TagName(); elements[string(name)] {
				return "</" + string(name) + ">", true
			}
		case html.DoctypeToken:
			if closed {
				return "<!DOCTYPE>", true
			}
		case html.CommentToken: // also what a browser hides as a comment, such as </3>, which is text for people
			switch raw := string(z.Raw()); {
			case strings.HasPrefix(raw, "<!--"):
				return "<!-- comment -->", true
			case strings.HasPrefix(raw, "<![CDATA["):
				return "<![CDATA[", true
			case !closed || len(raw) < 3 || (raw[2]|0x20) < 'a' || (raw[2]|0x20) > 'z':
			case raw[1] == '!':
				return "<!declaration>", true
			case raw[1] == '?':
				return "<?instruction>", true
			}
		case html.TextToken:
		}
	}
}

// elements are the names of elements. The atom table of golang.org/x/net/html does not serve, because it also has
// attribute names ("system", "title").
var elements = func(names string) map[string]bool {
	m := map[string]bool{}
	for name := range strings.FieldsSeq(names) {
		m[name] = true
	}
	return m
}(
	// HTML living standard, section 4 (The elements of HTML), and the roots of foreign content.
	`
	a abbr address area article aside audio b base bdi bdo blockquote body br button canvas caption cite code col
	colgroup data datalist dd del details dfn dialog div dl dt em embed fieldset figcaption figure footer form h1 h2 h3
	h4 h5 h6 head header hgroup hr html i iframe img input ins kbd label legend li link main map mark math menu meta
	meter nav noscript object ol optgroup option output p picture pre progress q rp rt ruby s samp script search section
	select selectedcontent slot small source span strong style sub summary sup svg table tbody td template textarea
	tfoot th thead time title tr track u ul var video wbr
	` +
		// Section 16.2 (Non-conforming features), and "image", which parsers read as "img".
		`
	acronym applet basefont bgsound big blink center dir font frame frameset image isindex keygen listing marquee
	menuitem multicol nextid nobr noembed noframes param plaintext rb rtc spacer strike tt xmp
	`,
)
