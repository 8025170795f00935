package pages

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/internal/web"
	"novelgate/readapi"
)

// discussionBody is the body of a page of a discussion.
type discussionBody struct {
	Title, Lang, NovelPath, Path string
	Chapter                      string // as requested: a number, "none" or ""
	UpTo                         string // as requested: a number or ""
	Filters                      []choice
	IsNewestFirst                bool
	FirstPage                    string // its path; "" on the first page
	OldestFirstLink              string // path of the same comments, oldest first
	NewestFirstLink              string // path of the same comments, newest first
	Previous, Next               string // paths of other pages; "" for none
	Single                       bool   // only one top-level comment, with its replies
	LastCommentLink              string // path of the comment that was written last; "" for none
	Counts                       string // "" on a page of replies
	Comments                     []commentView
}

// discussion handles GET /novels/{slug}/discussion.
func (p *Pages) discussion(ctx context.Context, r *http.Request, q *web.Query) (*document, error) {
	params, err := readapi.ParseDiscussion(mux.Vars(r)["slug"], q)
	if err != nil {
		return nil, err
	}
	page, err := p.Reader.Discussion(ctx, params)
	if err != nil {
		return nil, err
	}
	n := &page.Novel
	links := newLinks(p.Reader.Addresses.DiscussionPath(n.Slug), r.URL.Query(), page.UpTo)
	body := discussionBody{
		Title: n.Title, Lang: lang(n.Language), NovelPath: p.Reader.Addresses.NovelPath(n.Slug), Path: links.path,
		Chapter: params.Chapter, UpTo: page.UpTo,
		IsNewestFirst: params.Newest, Single: params.Under.Valid,
		OldestFirstLink: links.with("sort", "oldest"), NewestFirstLink: links.with("sort", "newest"),
	}
	if params.Chapter != "" {
		body.Filters = append(body.Filters, choice{Name: chapterName(params.Chapter), Path: links.with("chapter", "")})
	}
	if page.UpTo != "" {
		body.Filters = append(body.Filters, choice{Name: "Up to chapter " + page.UpTo, Path: links.with("upTo", "")})
	}
	if params.Cursor != "" || params.Post.Valid || body.Single {
		body.FirstPage = links.with("cursor", "")
		if body.Single {
			body.FirstPage = links.with("under", "")
		}
	}
	if page.Previous != "" {
		body.Previous = links.with("cursor", string(page.Previous))
	}
	if page.Next != "" {
		body.Next = links.with("cursor", string(page.Next))
	}
	if page.Counts.LastPost.Valid && page.UpTo == "" { // it may be on a later chapter
		body.LastCommentLink = links.post(page.Counts.LastPost.UUID.String())
	}
	if top := page.Counts.TopLevel; top > 0 && !body.Single {
		if body.Counts = count(top, "comment"); page.Counts.Replies > 0 {
			body.Counts += ", with " + count(page.Counts.Replies, "reply")
		}
	}
	for i := range page.TopLevelComments {
		unfold := i == 0 && (params.Post.Valid || body.Single)
		body.Comments = append(body.Comments, newThread(&page.TopLevelComments[i], links, p.Now(), unfold))
	}
	d := &document{
		Template: "discussion", Title: "Discussion of " + n.Title, Kind: "article", Image: p.coverOf(n.CoverURL),
		Feed: body.NovelPath + "/feed.atom", Body: &body, Description: "What readers say about " + n.Title + ".",
	}
	// The canonical address has the parameters that select the comments of the page. Links to a top-level comment and to
	// its replies share one address. So do the first pages in either order.
	canonical := url.Values{}
	switch {
	case params.Post.Valid:
		if len(page.TopLevelComments) > 0 { // the page begins with the one of params.Post
			canonical.Set("post", page.TopLevelComments[0].ID.String())
		}
		for post := range page.All() {
			if post.ID == params.Post.UUID && post.Content != "" {
				d.Description = excerpt(string(post.Content))
			}
		}
	case params.Under.Valid:
		canonical.Set("under", params.Under.UUID.String())
	case params.Chapter != "":
		canonical.Set("chapter", params.Chapter)
	}
	if params.Cursor != "" {
		canonical.Set("cursor", params.Cursor)
		if !params.Newest {
			canonical.Set("sort", "oldest")
		}
	}
	d.Canonical = address(p.Reader.Addresses.Discussion(n.Slug), canonical)
	return d, nil
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

// commentView is a comment for a template, with the replies below it.
type commentView struct {
	*readapi.Post

	Path, Name               string
	When                     moment
	Edited                   *moment // nil: never
	ChapterName, ChapterPath string  // "" for the novel as a whole
	ParentPath, ParentName   string  // of the comment that it replies to, unless the page shows that by its place
	Replies                  *repliesView
}

// repliesView is the replies to a comment. They can be folded if there are at least three, or the page lacks some.
type repliesView struct {
	Summary       string // to click on; "" for replies that cannot be folded
	Open          bool
	Before, After string // paths of other replies to a top-level comment; "" for none
	Comments      []commentView
}

// newThread returns a top-level comment with its replies, which are open if unfold is true or they are few.
func newThread(t *readapi.TopLevelComment, links links, now time.Time, unfold bool) commentView {
	names := map[uuid.UUID]string{}
	children := map[uuid.UUID][]*readapi.Post{}
	for i := range t.Replies {
		reply := &t.Replies[i]
		names[reply.ID] = nameOf(reply)
		parent := t.ID // also of a reply to one on another page
		if _, shown := names[reply.ParentID.UUID]; shown {
			parent = reply.ParentID.UUID
		}
		children[parent] = append(children[parent], reply)
	}
	above := uuid.Nil // the comment directly above
	var view func(post *readapi.Post) (v commentView, below int)
	view = func(post *readapi.Post) (v commentView, below int) {
		id := post.ID.String()
		v = commentView{Post: post, Path: links.post(id), Name: nameOf(post), When: momentAt(post.WrittenAt, now)}
		if post.EditedAt != nil {
			v.Edited = new(momentAt(*post.EditedAt, now))
		}
		if post.Chapter != "" {
			v.ChapterName, v.ChapterPath = chapterName(string(post.Chapter)), links.with("chapter", string(post.Chapter))
		}
		if parent := post.ParentID; parent.Valid && parent.UUID != above && parent.UUID != t.ID {
			name, shown := names[parent.UUID]
			if v.ParentName, v.ParentPath = name, "#post-"+parent.UUID.String(); !shown {
				v.ParentPath = links.post(parent.UUID.String())
			}
		}
		above = post.ID
		if post.ID == t.ID && t.Continued {
			above = uuid.Nil // a link to other replies comes between
		}
		replies := &repliesView{Open: true}
		for _, child := range children[post.ID] {
			reply, n := view(child)
			replies.Comments, below = append(replies.Comments, reply), below+1+n
		}
		if below > 0 {
			v.Replies = replies
		}
		if below >= 3 {
			replies.Summary = count(below, "reply")
		}
		return v, below
	}
	top, shown := view(&t.Post)
	if !t.Continued && t.RepliesCursor == "" {
		if top.Replies != nil {
			top.Replies.Open = unfold || shown <= 5
		}
		return top
	}
	if top.Replies == nil {
		top.Replies = new(repliesView)
	}
	top.Replies.Open, top.Replies.Summary = unfold || shown <= 5, count(shown, "reply")
	if t.RepliesCursor != "" {
		top.Replies.After = links.repliesTo(t.ID.String(), string(t.RepliesCursor))
		if top.Replies.Summary = "The first " + top.Replies.Summary; shown == 0 {
			top.Replies.Summary = "Replies"
		}
	}
	if t.Continued {
		top.Replies.Before = links.repliesTo(t.ID.String(), "")
		top.Replies.Summary = count(shown, "reply") + " of this thread"
	}
	return top
}

// links makes the links of a discussion page to other parts of the discussion.
type links struct {
	path string
	kept url.Values // parameters of the page that links may keep: sort, chapter, upTo, limit, under
}

func newLinks(path string, query url.Values, upTo string) links {
	l := links{path, url.Values{}}
	copyParameters(l.kept, query, "sort", "chapter", "limit", "under")
	if upTo != "" {
		l.kept.Set("upTo", upTo)
	}
	if l.kept.Has("under") {
		l.kept.Del("chapter") // a page of replies has replies on all chapters
	}
	return l
}

// with returns the address with one parameter changed. Only a link with a cursor keeps under, which selects a page of
// replies, because the cursor belongs to that page.
func (l links) with(name, value string) string {
	query := maps.Clone(l.kept)
	if name != "cursor" {
		query.Del("under")
	}
	return withParameter(l.path, query, name, value)
}

// post returns the address of a comment, on a page up to the same chapter.
func (l links) post(id string) string {
	query := url.Values{"post": {id}}
	copyParameters(query, l.kept, "upTo")
	return address(l.path, query) + "#post-" + id
}

// repliesTo returns the address of the replies to a top-level comment, starting at a cursor; "" is the first reply.
func (l links) repliesTo(id, cursor string) string {
	query := url.Values{"under": {id}}
	copyParameters(query, l.kept, "sort", "upTo")
	return withParameter(l.path, query, "cursor", cursor)
}
