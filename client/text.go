package client

import (
	"html"
	"regexp"
	"strings"
	"unicode"
)

// PlainText returns the text of HTML, for the content of a comment or a synopsis: the service takes plain text only,
// and shows entities such as &#39; as they are sent. Block elements and <br> become line breaks, items of a list begin
// with "- ", a link keeps its text and has its address in parentheses, a picture becomes its alternative text, and
// entities are decoded. Tags, comments, scripts and style sheets are dropped. A tag that the text shows (&lt;b&gt;)
// gets a space, < b>, because the service would refuse it as HTML.
func PlainText(source string) string {
	var w textWriter
	end := 0
	for _, at := range markup.FindAllStringIndex(source, -1) {
		w.write(html.UnescapeString(source[end:at[0]]))
		w.tag(source[at[0]:at[1]])
		end = at[1]
	}
	w.write(html.UnescapeString(source[end:]))
	w.endLink()
	return shownTag.ReplaceAllString(w.text.String(), "< $1")
}

var (
	// markup is what a browser does not show. In a tag, > may be in quotes; a tag without its > is text.
	markup = regexp.MustCompile(`(?is)<!--.*?(?:-->|$)|<script\b.*?(?:</script\s*>|$)|<style\b.*?(?:</style\s*>|$)|` +
		`<[!?][^>]*>|</?[a-z](?:=\s*"[^"]*"|=\s*'[^']*'|[^>])*>`)
	tagName   = regexp.MustCompile(`(?i)^<(/?[a-z][a-z0-9]*)`)
	attribute = regexp.MustCompile(`(?is)\s(?:href|alt)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"']+))`)
	shownTag  = regexp.MustCompile(`<(/?[A-Za-z]|[!?])`)
)

// lineBreaks are the least line breaks before and after an element: two leave an empty line.
var lineBreaks = func() map[string]int {
	all := map[string]int{}
	for name := range strings.FieldsSeq(`address article aside dd details div dl dt fieldset figcaption figure footer form
		header hr legend li main nav option section summary table tr`) {
		all[name] = 1
	}
	for name := range strings.FieldsSeq(`blockquote h1 h2 h3 h4 h5 h6 ol p pre ul`) {
		all[name] = 2
	}
	return all
}()

// textWriter writes text with the white space of HTML: a run of it is one space, or nothing beside a line break.
type textWriter struct {
	text   strings.Builder
	space  bool // comes before the next character
	breaks int  // likewise
	pre    bool // white space is kept

	address   string // of the link that is open; "" without one
	linkStart int    // in text
}

func (w *textWriter) write(text string) {
	for _, r := range text {
		switch {
		case r == '\n' && w.pre:
			w.breaks++
			continue
		case unicode.IsSpace(r) && !w.pre:
			w.space = true
			continue
		case unicode.IsControl(r) && r != '\t' && r != '\n':
			continue
		}
		if w.text.Len() > 0 {
			if w.breaks > 0 {
				w.text.WriteString("\n\n"[:min(w.breaks, 2)])
			} else if w.space {
				w.text.WriteByte(' ')
			}
		}
		w.space, w.breaks = false, 0
		w.text.WriteRune(r)
	}
}

func (w *textWriter) tag(tag string) {
	matched := tagName.FindStringSubmatch(tag)
	if matched == nil {
		return // a comment
	}
	name, ends := strings.CutPrefix(strings.ToLower(matched[1]), "/")
	w.breaks = max(w.breaks, lineBreaks[name])
	switch name {
	case "br":
		w.breaks++
	case "td", "th":
		w.space = true
	case "pre":
		w.pre = !ends
	case "li":
		if !ends {
			w.write("- ")
		}
	case "a":
		w.endLink()
		if address := value(tag); !ends && (strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://")) {
			w.address, w.linkStart = address, w.text.Len()
		}
	case "img":
		w.write(value(tag))
	}
}

// endLink writes the address of the open link, unless that is its text.
func (w *textWriter) endLink() {
	address := w.address
	w.address = ""
	if address != "" && strings.TrimSpace(w.text.String()[w.linkStart:]) != address {
		w.write(" (" + address + ")")
	}
}

// value returns the address of a link or the alternative text of a picture, "" without one.
func value(tag string) string {
	matched := attribute.FindStringSubmatch(tag)
	if matched == nil {
		return ""
	}
	return html.UnescapeString(matched[1] + matched[2] + matched[3])
}
