package pages

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gorilla/mux"

	"novelgate/readapi"
)

// Feeds (RFC 4287), sitemaps (https://www.sitemaps.org/protocol.html) and robots.txt (RFC 9309).

const (
	atomType = "application/atom+xml"
	xmlType  = "application/xml"
)

type atomFeed struct {
	XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	ID      string      `xml:"id"`
	Title   string      `xml:"title"`
	Updated string      `xml:"updated"`
	Links   []atomLink  `xml:"link"`
	Entries []atomEntry `xml:"entry"`
}

type atomLink struct {
	Rel  string `xml:"rel,attr"`
	Href string `xml:"href,attr"`
}

type atomEntry struct {
	ID      string   `xml:"id"`
	Title   string   `xml:"title"`
	Updated string   `xml:"updated"`
	Author  string   `xml:"author>name"`
	Link    atomLink `xml:"link"`
	Content string   `xml:"content"` // plain text, the default type
}

// feedEntries is the maximum number of comments in a feed.
const feedEntries = 20

// feed returns the feed of a page. The entries begin with the newest one.
func (p *Pages) feed(title, page, self string, latest []readapi.PostOnNovel) atomFeed {
	f := atomFeed{
		ID: page, Title: WithoutBidi(title), Updated: time.Unix(0, 0).UTC().Format(time.RFC3339),
		Links: []atomLink{{"alternate", page}, {"self", self}},
	}
	for i := range latest {
		slug, post := latest[i].Novel.Slug, &latest[i].Post
		on := latest[i].Novel.Title
		if post.Chapter != "" {
			on += ", " + chapterName(string(post.Chapter))
		}
		f.Entries = append(f.Entries, atomEntry{
			ID: "urn:uuid:" + post.ID.String(), Title: WithoutBidi(nameOf(post) + " on " + on),
			Updated: post.WrittenAt.UTC().Format(time.RFC3339), Author: nameOf(post), Content: string(post.Content),
			Link: atomLink{"alternate", p.Reader.Addresses.Post(slug, post.ID)},
		})
	}
	if len(latest) > 0 {
		f.Updated = f.Entries[0].Updated
	}
	return f
}

// latestFeed handles GET /feed.atom: the latest comments, one of each novel.
func (p *Pages) latestFeed(ctx context.Context, _ *http.Request) (any, error) {
	latest, err := p.Reader.Latest(ctx, feedEntries)
	if err != nil {
		return nil, err
	}
	start := p.Reader.Addresses.Start()
	return p.feed("Latest comments on "+p.siteName(), start, start+"feed.atom", latest), nil
}

// novelFeed handles GET /novels/{slug}/feed.atom: the latest top-level comments that are neither hidden nor erased.
func (p *Pages) novelFeed(ctx context.Context, r *http.Request) (any, error) {
	novel, err := p.Reader.Novel(ctx, mux.Vars(r)["slug"])
	if err != nil {
		return nil, err
	}
	latest, err := p.Reader.LatestOn(ctx, novel.ID, feedEntries)
	if err != nil {
		return nil, err
	}
	return p.feed("Comments on "+novel.Title, p.Reader.Addresses.Discussion(novel.Slug),
		p.Reader.Addresses.Novel(novel.Slug)+"/feed.atom", latest), nil
}

type sitemapIndex struct {
	XMLName xml.Name   `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 sitemapindex"`
	Parts   []location `xml:"sitemap"`
}

type sitemap struct {
	XMLName xml.Name   `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 urlset"`
	Pages   []location `xml:"url"`
}

// location is the address of a part of the sitemap, or of a page.
type location struct {
	Address string `xml:"loc"`
}

// sitemaps handles GET /sitemap.xml. There is one part for each first byte of the identifiers of novels. Parts without
// novels are left out, because the schema of sitemaps forbids an empty part. Only part 0 is always there: it also has
// the start page and the list of novels.
func (p *Pages) sitemaps(ctx context.Context, _ *http.Request) (any, error) {
	parts, err := p.Reader.SitemapParts(ctx)
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 || parts[0] != 0 {
		parts = append([]byte{0}, parts...)
	}
	var index sitemapIndex
	for _, part := range parts {
		index.Parts = append(index.Parts, location{fmt.Sprintf("%ssitemaps/%d", p.Reader.Addresses.Start(), part)})
	}
	return index, nil
}

// sitemap handles GET /sitemaps/{part}.
func (p *Pages) sitemap(ctx context.Context, r *http.Request) (any, error) {
	part, err := strconv.ParseUint(mux.Vars(r)["part"], 10, 8)
	if err != nil {
		return nil, readapi.ErrNotFound
	}
	slugs, err := p.Reader.Slugs(ctx, byte(part))
	if err != nil {
		return nil, err
	}
	var s sitemap
	if part == 0 {
		s.Pages = []location{{p.Reader.Addresses.Start()}, {p.Reader.Addresses.Novels()}}
	}
	for _, slug := range slugs {
		s.Pages = append(s.Pages, location{p.Reader.Addresses.Novel(slug)}, location{p.Reader.Addresses.Discussion(slug)})
	}
	if len(s.Pages) == 0 {
		return nil, readapi.ErrNotFound
	}
	return s, nil
}

// xmlOf renders the XML document that read returns.
func xmlOf(contentType string, read func(ctx context.Context, r *http.Request) (any, error)) readFunc {
	return func(ctx context.Context, h http.Header, r *http.Request) ([]byte, error) {
		h.Set("Content-Type", contentType)
		document, err := read(ctx, r)
		if err != nil {
			return nil, err
		}
		encoded, err := xml.Marshal(document)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", contentType, err)
		}
		return WithoutControls(append([]byte(xml.Header), encoded...)), nil
	}
}

// robots handles GET /robots.txt.
func (p *Pages) robots(_ context.Context, h http.Header, _ *http.Request) ([]byte, error) {
	h.Set("Content-Type", "text/plain; charset=utf-8")
	base := p.Reader.Addresses.Base()
	return []byte("User-agent: *\nDisallow: " + base + "/api/\nAllow: " + base + "/\n\nSitemap: " +
		p.Reader.Addresses.Start() + "sitemap.xml\n"), nil
}
