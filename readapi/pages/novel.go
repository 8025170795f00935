package pages

import (
	"cmp"
	"context"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/gorilla/mux"
	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"novelgate/internal/httpkit"
	"novelgate/readapi/queries"
)

// novelBody is the body of the page of a novel.
type novelBody struct {
	novelView

	AsOf *moment
}

// novel handles GET /novels/{slug}.
func (p *Pages) novel(ctx context.Context, r *http.Request, q *httpkit.Query) (*document, error) {
	slug := mux.Vars(r)["slug"]
	asOf, err := queries.ParseNovel(slug, q)
	if err != nil {
		return nil, err //nolint:wrapcheck // already a problem
	}
	found, err := p.Reader.Novel(ctx, slug, asOf)
	if err != nil {
		return nil, err //nolint:wrapcheck // the error names the operation
	}
	body := novelBody{novelView: p.view(&found), AsOf: momentOrNil(asOf)}
	if asOf != nil {
		body.DiscussionPath += "?" + asOfQuery(*asOf)
	}
	return &document{
		Template: "novel", Title: found.Title, Kind: "book", Description: excerpt(found.Synopsis), Image: found.CoverURL,
		Canonical: p.Addresses.Novel(found.Slug), NoIndex: asOf != nil, Body: body,
	}, nil
}

// lang returns the lang attribute for text in the original language: a canonical tag (BCP 47) such as en for eng, or ""
// for an unknown language. A partner may use any text as the name of a language.
func lang(original string) string {
	tag, err := language.Parse(original)
	if err != nil || tag == language.Und {
		return ""
	}
	return tag.String()
}

// languageName returns the English name of the original language if it is a language tag (English for en), otherwise
// the partner's text.
func languageName(original string) string {
	tag, err := language.Parse(original)
	if err != nil || tag == language.Und {
		return original
	}
	return cmp.Or(display.English.Tags().Name(tag), original)
}

// excerptLength is the length of the text in a link preview, in characters.
const excerptLength = 200

// excerpt returns the beginning of a text.
func excerpt(text string) string {
	n := 0
	for i := range text {
		if n == excerptLength {
			return text[:i] + "…"
		}
		n++
	}
	if !utf8.ValidString(text) {
		return ""
	}
	return text
}

// moment is a time for a template.
type moment struct {
	Machine, Human string
}

// Layouts of times in UTC.
const (
	machineTime = "2006-01-02T15:04:05Z"
	humanTime   = "2 January 2006, 15:04 UTC"
)

func momentOrNil(t *time.Time) *moment {
	if t == nil {
		return nil
	}
	return &moment{t.UTC().Format(machineTime), t.UTC().Format(humanTime)}
}
