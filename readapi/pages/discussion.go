package pages

import (
	"context"
	"html/template"
	"net/http"
	"net/url"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/internal/httpkit"
	"novelgate/readapi"
)

// discussionBody is the body of a page of a discussion.
type discussionBody struct {
	Title, Lang, NovelPath, Path string
	AsOf                         *moment
	AsOfText                     string // value of the parameter asOf
	Chapter                      string // as requested: a number, "none" or ""
	ChapterName                  string
	IsNewestFirst                bool
	FirstPage                    string // its path; "" on the first page
	OldestFirstLink              string // path of the same comments, oldest first
	NewestFirstLink              string // path of the same comments, newest first
	Previous, Next               string // paths of other pages; "" for none
	Single                       bool   // only one top-level comment, with its replies
	LastCommentLink              string // path of the comment that was written last; "" for none
	Empty                        bool   // no comments

	page   *readapi.Page
	writer commentWriter
}

// Comments renders the comments. The template calls it, so that a page that waits for its turn to be rendered holds the
// comments and not their HTML, which takes much more memory.
func (b *discussionBody) Comments() template.HTML { return b.writer.page(b.page) }

// RangeText says which top-level comments the page shows, and of how many. If their place is unknown, it says only how
// many comments there are. It is "" on pages of replies, on pages of a past time, whose counts are 0, and without
// comments.
func (b *discussionBody) RangeText() string {
	top, first, shown := b.page.TopLevelCount(), b.page.FirstPlace, len(b.page.TopLevelComments)
	switch {
	case top == 0 || shown == 0 || b.Single:
		return ""
	case first == 0:
		return count(b.page.Posts, "comment")
	}
	last := first + shown - 1
	total := max(top, last) // the count may be behind the comments
	text := "Comments " + httpkit.Thousands(first) + "–" + httpkit.Thousands(last) + " of " + httpkit.Thousands(total)
	switch {
	case first == 1 && last == total:
		text = count(total, "comment")
	case shown == 1:
		text = "Comment " + httpkit.Thousands(first) + " of " + httpkit.Thousands(total)
	}
	if b.page.Replies > 0 {
		text += ", with " + count(b.page.Replies, "reply")
		if b.Previous != "" || b.Next != "" {
			text += " in all"
		}
	}
	return text
}

// discussion handles GET /novels/{slug}/discussion.
func (p *Pages) discussion(ctx context.Context, r *http.Request, q *httpkit.Query) (*document, error) {
	params, err := readapi.ParseDiscussion(mux.Vars(r)["slug"], q)
	if err != nil {
		return nil, err
	}
	page, err := p.Reader.Discussion(ctx, params)
	if err != nil {
		return nil, err
	}
	n := &page.Novel
	links := newLinks(p.Addresses.DiscussionPath(n.Slug), r.URL.Query())
	body := discussionBody{
		Title: n.Title, Lang: lang(n.Language), NovelPath: p.Addresses.NovelPath(n.Slug), Path: links.path,
		AsOf:     exactMoment(params.AsOf),
		AsOfText: q.Text("asOf"), Chapter: params.Chapter, ChapterName: chapterName(params.Chapter),
		IsNewestFirst: params.Newest, Single: params.Under.Valid,
		OldestFirstLink: links.with("sort", "oldest"), NewestFirstLink: links.with("sort", "newest"),
	}
	if params.AsOf != nil {
		body.NovelPath += "?" + asOfQuery(*params.AsOf)
	}
	if params.Cursor != "" || params.Post.Valid || body.Single {
		body.FirstPage = links.firstPage()
	}
	if page.Previous != "" {
		body.Previous = links.with("cursor", page.Previous)
	}
	if page.Next != "" {
		body.Next = links.with("cursor", page.Next)
	}
	if page.LastPost.Valid {
		body.LastCommentLink = links.post(page.LastPost.UUID.String())
	}
	body.Empty, body.page = len(page.TopLevelComments) == 0, page
	body.writer = commentWriter{links: links, now: p.Now(), unfold: params.Post.Valid || body.Single}
	d := &document{
		Template: "discussion", Title: "Discussion of " + n.Title, Kind: "article",
		Image: p.preview(n.Slug, n.Title, n.CoverURL),
		Feed:  p.Addresses.NovelPath(n.Slug) + "/feed.atom", StructuredData: p.postings(page),
		NoIndex: params.AsOf != nil, Body: &body,
		Description: "What readers say about " + n.Title + ".", Canonical: p.Addresses.Discussion(n.Slug),
	}
	p.setCanonical(d, page, params)
	return d, nil
}

// setCanonical adds the parameters that select the comments of the page to the canonical address: post, under or
// chapter, and on a further page the cursor. Links to a top-level comment and to its replies share one address. So do
// the first pages in either order. For a link to a comment it also sets the description, to an excerpt of the comment.
func (p *Pages) setCanonical(d *document, page *readapi.Page, params readapi.DiscussionParams) {
	query := url.Values{}
	switch {
	case params.Post.Valid:
		if len(page.TopLevelComments) > 0 { // the page begins with the one of params.Post
			query.Set("post", page.TopLevelComments[0].ID.String())
		}
		if text := contentOf(page, params.Post.UUID); text != "" {
			d.Description = excerpt(text)
		}
	case params.Under.Valid:
		query.Set("under", params.Under.UUID.String())
	case params.Chapter != "":
		query.Set("chapter", params.Chapter)
	}
	if params.Cursor != "" {
		query.Set("cursor", params.Cursor)
		if !params.Newest {
			query.Set("sort", "oldest")
		}
	}
	d.Canonical = address(d.Canonical, query)
}

// contentOf returns the text of a comment on a page; "" if the page does not show it.
func contentOf(page *readapi.Page, id uuid.UUID) string {
	for post := range page.All() {
		if post.ID == id {
			return post.Content
		}
	}
	return ""
}

// chapterName returns the name of a chapter, from the parameter chapter or the number of the chapter.
func chapterName(chapter string) string {
	switch chapter {
	case "":
		return ""
	case readapi.NoChapter:
		return "The novel as a whole"
	case "0":
		return "Prologue"
	default:
		return "Chapter " + chapter
	}
}
