package markup

// longestName is the length of the longest name in elements.
const longestName = 15

// elements maps each element name to itself, so that a look-up by bytes returns a string without an allocation. The
// atom table of golang.org/x/net/html does not serve, because it also has attribute names ("system", "title").
var elements = func(names ...string) map[string]string {
	m := make(map[string]string, len(names))
	for _, name := range names {
		m[name] = name
	}
	return m
}(
	// HTML living standard, section 4 (The elements of HTML), and the roots of
	// foreign content.
	"a", "abbr", "address", "area", "article", "aside", "audio",
	"b", "base", "bdi", "bdo", "blockquote", "body", "br", "button",
	"canvas", "caption", "cite", "code", "col", "colgroup",
	"data", "datalist", "dd", "del", "details", "dfn", "dialog", "div", "dl", "dt",
	"em", "embed",
	"fieldset", "figcaption", "figure", "footer", "form",
	"h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hgroup", "hr", "html",
	"i", "iframe", "img", "input", "ins",
	"kbd",
	"label", "legend", "li", "link",
	"main", "map", "mark", "math", "menu", "meta", "meter",
	"nav", "noscript",
	"object", "ol", "optgroup", "option", "output",
	"p", "picture", "pre", "progress",
	"q",
	"rp", "rt", "ruby",
	"s", "samp", "script", "search", "section", "select", "selectedcontent", "slot",
	"small", "source", "span", "strong", "style", "sub", "summary", "sup", "svg",
	"table", "tbody", "td", "template", "textarea", "tfoot", "th", "thead", "time",
	"title", "tr", "track",
	"u", "ul",
	"var", "video",
	"wbr",

	// Section 16.2 (Non-conforming features), and "image", which parsers read as
	// "img".
	"acronym", "applet", "basefont", "bgsound", "big", "blink", "center", "dir",
	"font", "frame", "frameset", "image", "isindex", "keygen", "listing", "marquee",
	"menuitem", "multicol", "nextid", "nobr", "noembed", "noframes", "param",
	"plaintext", "rb", "rtc", "spacer", "strike", "tt", "xmp",
)
