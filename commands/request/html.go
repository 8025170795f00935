package request

import "strings"

// The names of markup other than tags.
const (
	htmlComment     = "<!-- comment -->"
	htmlCDATA       = "<![CDATA["
	htmlDoctype     = "<!DOCTYPE>"
	htmlDeclaration = "<!declaration>"
	htmlInstruction = "<?instruction>"
)

// findHTML reports the first HTML markup in s. markup is its name: "<b>", "</b>", "<!-- comment -->",
// "<!DOCTYPE>". It is one of a fixed list of short names, never a part of s.
//
// HTML is, as an HTML tokenizer sees it:
//   - the start or end tag of an element of the HTML standard (obsolete ones included) or of <svg> and <math>, in any
//     case, with or without attributes, closed by a '>';
//   - a comment (<!--) or a CDATA section (<![CDATA[), closed or not: they do not occur in prose, and a parser would
//     hide the rest of the text;
//   - a doctype, another declaration (<!ENTITY …>) or a processing instruction (<?php … ?>), closed by a '>'.
//
// Everything else is text: "a < b", "<3", "</3", "<-", "<System>", "x<y>z", "<my-widget>", "<me@example.com>", entities
// such as "&amp;", and a tag that is never closed ("<b").
//
// Unlike a tokenizer, findHTML takes any later '>' as the end of a tag, even inside an attribute's quotes. So it finds
// "<b>" in `<b title="<i>`, which a tokenizer drops as unfinished. The search is linear in the worst case: it looks for
// markup only in the 17 bytes after each '<'. Tests with the tokenizer of golang.org/x/net/html check that findHTML
// misses no tag, comment or doctype.
func findHTML(s string) (markup string, found bool) {
	i := strings.IndexByte(s, '<')
	if i < 0 {
		return "", false
	}
	lastClose := strings.LastIndexByte(s, '>')
	for {
		if markup = markupAt(s[i+1:], lastClose > i); markup != "" {
			return markup, true
		}
		next := strings.IndexByte(s[i+1:], '<')
		if next < 0 {
			return "", false
		}
		i += 1 + next
	}
}

// markupAt returns the name of the markup whose '<' is before rest, or "". closed says whether rest has a '>'.
func markupAt(rest string, closed bool) string {
	switch {
	case rest == "":
		return ""
	case rest[0] == '!':
		return declarationAt(rest[1:], closed)
	case !closed:
		return ""
	case rest[0] == '?':
		if len(rest) > 1 && isLetter(rest[1]) {
			return htmlInstruction
		}
		return ""
	case rest[0] == '/':
		if name := elementAt(rest[1:]); name != "" {
			return "</" + name + ">"
		}
		return ""
	default:
		if name := elementAt(rest); name != "" {
			return "<" + name + ">"
		}
		return ""
	}
}

// declarationAt returns the name of the markup whose "<!" is before rest, or "".
func declarationAt(rest string, closed bool) string {
	switch {
	case strings.HasPrefix(rest, "--"):
		return htmlComment
	case strings.HasPrefix(rest, "[CDATA["):
		return htmlCDATA
	case !closed || rest == "" || !isLetter(rest[0]):
		return ""
	case len(rest) >= len("doctype") && strings.EqualFold(rest[:len("doctype")], "doctype"):
		return htmlDoctype
	default:
		return htmlDeclaration
	}
}

// elementAt returns the name of the element at the start of rest in lower case, or "". White space, '/' or '>' ends a
// name.
func elementAt(rest string) string {
	var name [longestName]byte
	for i := range min(len(rest), longestName+1) {
		switch c := rest[i]; c {
		case ' ', '\t', '\n', '\f', '\r', '/', '>':
			return elements[string(name[:i])]
		default:
			if i == longestName {
				return ""
			}
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			name[i] = c
		}
	}
	return ""
}

func isLetter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// longestName is the length of the longest name in elements.
const longestName = 15

// elements maps each element name to itself, so that a look-up by bytes returns a string without an allocation. The
// atom table of golang.org/x/net/html does not serve, because it also has attribute names ("system", "title").
var elements = func(names string) map[string]string {
	m := map[string]string{}
	for name := range strings.FieldsSeq(names) {
		m[name] = name
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
