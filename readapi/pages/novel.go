package pages

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/gorilla/mux"
	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"novelgate/aggregates/novel"
	"novelgate/internal/httpkit"
	"novelgate/readapi"
)

// novelView is a novel for a template.
type novelView struct {
	*readapi.Novel

	By                   string // the author; "" for an unknown one
	Path, DiscussionPath string
	Lang                 string // of the title: the attribute lang
	LanguageName         string
	LanguagePath         string // of the list of novels in this language
	OwnerPath            string // of the list of novels of the same platform
	Genres               []choice
	Status               string
	Cover                cover
	Count                string
	Last                 *moment // when the latest comment was written
}

// cover is the picture of a novel; without one, a letter.
type cover struct {
	Image, Letter, Size string
	Hue                 int // number of a colour for the letter, the same for a novel everywhere
}

// hues is the number of these colours in the style sheet.
const hues = 8

func (p *Pages) cover(n *readapi.Novel) cover {
	return cover{
		Image:  p.coverAddress(p.Addresses.Base(), n.Slug, n.CoverURL),
		Letter: firstLetter(n.Title), Hue: int(n.ID[0]) % hues,
	}
}

// coverAddress returns the address from which a browser loads the cover of a novel; "" for none. The address of a
// proxied cover begins with base, and has a digest that changes with coverURL.
func (p *Pages) coverAddress(base, slug, coverURL string) string {
	switch {
	case coverURL == "" || p.Site.Covers == NoCovers:
		return ""
	case p.Site.Covers == ProxiedCovers:
		return base + "/novels/" + url.PathEscape(slug) + "/cover?v=" + shortDigest([]byte(coverURL))
	default:
		return coverURL
	}
}

func (p *Pages) view(n *readapi.Novel) novelView {
	list := p.Addresses.Base() + "/novels"
	v := novelView{
		Novel: n, Path: p.Addresses.NovelPath(n.Slug), DiscussionPath: p.Addresses.DiscussionPath(n.Slug),
		Lang: lang(n.Language), LanguageName: languageName(n.Language),
		LanguagePath: withParameter(list, nil, "language", n.Language),
		OwnerPath:    withParameter(list, nil, "owner", cmp.Or(n.Platform, readapi.Host)),
		Status:       statuses[n.ReadingStatus], Cover: p.cover(n), Count: count(n.Posts, "comment"),
	}
	if n.Author != novel.DefaultAuthor {
		v.By = n.Author
	}
	for _, genre := range n.Genres {
		v.Genres = append(v.Genres, choice{Name: genre, Path: withParameter(list, nil, "genre", genre)})
	}
	if n.LastPost != nil {
		v.Last = new(momentAt(*n.LastPost, p.Now()))
	}
	return v
}

// remark is the beginning of a comment, for lists outside of its discussion.
type remark struct {
	Author, Text, Path string
	Title, NovelPath   string // "" on the page of the novel
	When               moment
}

func (p *Pages) remark(slug string, post *readapi.Post) remark {
	id := post.ID.String()
	return remark{
		Author: nameOf(post), Text: excerpt(post.Content), When: momentAt(post.WrittenAt, p.Now()),
		Path: p.Addresses.DiscussionPath(slug) + "?post=" + id + "#post-" + id,
	}
}

var statuses = map[string]string{"ongoing": "Ongoing", "completed": "Completed", "hiatus": "On hiatus"}

// novelBody is the body of the page of a novel.
type novelBody struct {
	novelView

	AsOf         *moment // nil: now
	Chapters     []bar
	MoreChapters bool
	Latest       []remark
}

// bar is a chapter in the bar chart of a novel.
type bar struct {
	Name, Path, Count string
	Percent           int // of the most discussed chapter
}

// newestComments is the number of comments on the page of a novel.
const newestComments = 3

// addDiscussion adds the chapters and comments of a novel.
func (p *Pages) addDiscussion(ctx context.Context, body *novelBody) error {
	chapters, err := p.Reader.Chapters(ctx, body.ID)
	if err != nil {
		return err
	}
	most := 1
	for _, c := range chapters {
		most = max(most, c.Posts)
	}
	for _, c := range chapters {
		body.Chapters = append(body.Chapters, bar{
			chapterName(c.Number), withParameter(body.DiscussionPath, nil, "chapter", c.Number), httpkit.Thousands(c.Posts),
			max(1, 100*c.Posts/most),
		})
	}
	body.MoreChapters = len(chapters) >= readapi.ChaptersShown
	// Twice as many, because hidden and erased ones are left out.
	newest := readapi.DiscussionParams{Slug: body.Slug, Newest: true, Limit: 2 * newestComments}
	page, err := p.Reader.Discussion(ctx, newest)
	if err != nil {
		return err
	}
	for i := range page.TopLevelComments {
		if post := &page.TopLevelComments[i].Post; !post.Hidden && !post.Erased && len(body.Latest) < newestComments {
			body.Latest = append(body.Latest, p.remark(body.Slug, post))
		}
	}
	return nil
}

// novel handles GET /novels/{slug}.
func (p *Pages) novel(ctx context.Context, r *http.Request, q *httpkit.Query) (*document, error) {
	asOf := q.Time("asOf")
	if err := q.Err(); err != nil {
		return nil, err
	}
	found, err := p.Reader.Novel(ctx, mux.Vars(r)["slug"], asOf)
	if err != nil {
		return nil, err
	}
	body := novelBody{novelView: p.view(&found), AsOf: exactMoment(asOf)}
	body.Cover.Size = "large"
	if asOf != nil {
		body.DiscussionPath += "?" + asOfQuery(*asOf)
	} else if err := p.addDiscussion(ctx, &body); err != nil {
		return nil, err
	}
	return &document{
		Template: "novel", Title: found.Title, Kind: "book", Description: excerpt(found.Synopsis),
		Image: p.preview(found.Slug, found.Title, found.CoverURL),
		Feed:  p.Addresses.NovelPath(found.Slug) + "/feed.atom", StructuredData: p.book(&found),
		Canonical: p.Addresses.Novel(found.Slug), NoIndex: asOf != nil, Body: body,
	}, nil
}

// lang returns the attribute lang for text in a language: a canonical tag (BCP 47) such as en for eng, or "" for an
// unknown language. A partner may use any text as the name of a language.
func lang(name string) string {
	tag, err := language.Parse(name)
	if err != nil || tag == language.Und {
		return ""
	}
	return tag.String()
}

// languageName returns the English name of a language if the partner's name for it is a tag (English for en), otherwise
// the partner's name.
func languageName(name string) string {
	tag, err := language.Parse(name)
	if err != nil || tag == language.Und {
		return name
	}
	return cmp.Or(display.English.Tags().Name(tag), name)
}

// excerptLength is the maximum length of an excerpt, in characters.
const excerptLength = 200

// excerpt returns the beginning of a text. It is cut between words, unless that takes off a quarter: a text may be
// without spaces.
func excerpt(text string) string {
	const spaces = " \n"
	n := 0
	for i := range text {
		if n == excerptLength {
			begin := text[:i]
			inWord := strings.IndexByte(spaces, text[i]) < 0
			if space := strings.LastIndexAny(begin, spaces); inWord && space > len(begin)*3/4 {
				begin = begin[:space]
			}
			return strings.TrimRight(begin, spaces+".,") + "…"
		}
		n++
	}
	return text
}
