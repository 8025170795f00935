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
		return nil, err //nolint:wrapcheck // it says what it was reading
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

// lang returns the lang attribute of what is in the original language: a canonical tag (BCP 47), en for eng, or "",
// which means unknown. A partner may call a language anything.
func lang(original string) string {
	tag, err := language.Parse(original)
	if err != nil || tag == language.Und {
		return ""
	}
	return tag.String()
}

// languageName returns what readers call the original language: English for en; what the partner calls it unless that
// is a language tag.
func languageName(original string) string {
	tag, err := language.Parse(original)
	if err != nil || tag == language.Und {
		return original
	}
	return cmp.Or(display.English.Tags().Name(tag), original)
}

// excerptLength is how much of a text a link preview shows, in characters.
const excerptLength = 200

// excerpt is the beginning of a text.
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

// moment is a time as a template shows it.
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
