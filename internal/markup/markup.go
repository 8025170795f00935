// Package markup finds HTML in what should be plain text.
//
// HTML is, as an HTML tokenizer sees it:
//   - the start or end tag of an element of the HTML standard (its obsolete
//     elements included) or of <svg> and <math>, in any case, with or without
//     attributes, closed by a '>';
//   - a comment (<!--) or a CDATA section (<![CDATA[), closed or not: they do not occur in prose, and a parser would
//     hide the rest of the text;
//   - a doctype, another declaration (<!ENTITY …>) or a processing instruction
//     (<?php … ?>), closed by a '>'.
//
// Everything else is text: "a < b", "<3", "</3", "<-", "<System>", "x<y>z",
// "<my-widget>", "<me@example.com>", entities such as "&amp;", and a tag that the
// text ends before closing ("<b").
//
// The end of a tag is decided more strictly than in a tokenizer: any later '>' ends it, even inside an attribute's
// quotes. So <i> is found in `<b title="<i>`, which a tokenizer drops as unfinished. The search is linear in the worst
// case, because no part of the text is read twice. Tests with the tokenizer of golang.org/x/net/html check that
// FindHTML misses no tag, comment or doctype.
package markup

import "strings"

// The names of markup other than tags.
const (
	comment     = "<!-- comment -->"
	cdata       = "<![CDATA["
	doctype     = "<!DOCTYPE>"
	declaration = "<!declaration>"
	instruction = "<?instruction>"
)

// FindHTML reports the first HTML markup in s. what is short and from a fixed list, never from s: "<b>", "</b>", "<!--
// comment -->", "<!DOCTYPE>".
func FindHTML(s string) (what string, found bool) {
	i := strings.IndexByte(s, '<')
	if i < 0 {
		return "", false
	}
	lastClose := strings.LastIndexByte(s, '>')
	for {
		if what = at(s[i+1:], lastClose > i); what != "" {
			return what, true
		}
		next := strings.IndexByte(s[i+1:], '<')
		if next < 0 {
			return "", false
		}
		i += 1 + next
	}
}

// at returns the name of the markup whose '<' is before rest, or "".
func at(rest string, closed bool) string {
	switch {
	case rest == "":
		return ""
	case rest[0] == '!':
		return declarationAt(rest[1:], closed)
	case !closed:
		return ""
	case rest[0] == '?':
		if len(rest) > 1 && isLetter(rest[1]) {
			return instruction
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

// declarationAt returns the name of the markup after "<!".
func declarationAt(rest string, closed bool) string {
	switch {
	case strings.HasPrefix(rest, "--"):
		return comment
	case strings.HasPrefix(rest, "[CDATA["):
		return cdata
	case !closed || rest == "" || !isLetter(rest[0]):
		return ""
	case len(rest) >= len("doctype") && strings.EqualFold(rest[:len("doctype")], "doctype"):
		return doctype
	default:
		return declaration
	}
}

// elementAt returns the name of the element at the start of rest in lower case, or "".
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
