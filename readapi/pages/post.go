package pages

import (
	"strconv"

	"github.com/google/uuid"

	"novelgate/readapi/reading"
)

// deepest is the greatest indentation: what is deeper stands below at the same distance, and says what it replies to.
const deepest = 5

// postView is a comment as a template shows it, or the link to further replies.
type postView struct {
	ID          string
	Indent      int
	Name        string // "" when withheld
	From        string // of the author
	Written     moment
	Link        string // permanent address
	Chapter     string
	ChapterLink string
	Parent      string // address of what it replies to; "" when that stands right above or there is nothing
	ParentName  string
	Content     string
	Withheld    string // why there is no content
	Path        string // of further replies; then nothing else is set but Text and Indent
	Text        string
}

// flatten lists the comments of a page in the order in which they are read.
func flatten(page *reading.Page, l links) []postView {
	posts := make([]postView, 0, 2*len(page.Threads))
	names := map[uuid.UUID]string{}
	for i := range page.Threads {
		t := &page.Threads[i]
		names[t.ID] = nameOf(&t.Post)
		for j := range t.Replies {
			names[t.Replies[j].ID] = nameOf(&t.Replies[j])
		}
		above := uuid.Nil
		add := func(p *reading.Post) {
			view := newPostView(p, l)
			if p.ParentID.Valid && p.ParentID.UUID != above {
				name, shown := names[p.ParentID.UUID]
				view.Parent, view.ParentName = "#post-"+p.ParentID.UUID.String(), name
				if !shown {
					view.Parent = l.post(p.ParentID.UUID.String())
				}
			}
			above = p.ID
			posts = append(posts, view)
		}
		add(&t.Post)
		id := t.ID.String()
		if t.Later {
			posts = append(posts, postView{Indent: 1, Path: l.under(id, ""), Text: "All replies from the first"})
			above = uuid.Nil
		}
		for j := range t.Replies {
			add(&t.Replies[j])
		}
		if t.More != "" {
			posts = append(posts, postView{Indent: 1, Path: l.under(id, t.More), Text: "More replies"})
		}
	}
	return posts
}

func newPostView(p *reading.Post, l links) postView {
	id := p.ID.String()
	view := postView{ID: id, Indent: min(p.Depth, deepest), Written: newMoment(p.WrittenAt), Link: l.post(id), Content: p.Content}
	if p.Chapter != "" {
		view.Chapter, view.ChapterLink = chapterName(p.Chapter), l.chapter(p.Chapter)
	}
	switch {
	case p.Hidden:
		view.Withheld = "The staff of this platform hid this comment."
	case p.Erased:
		view.Withheld = "This comment was erased."
	default:
		view.Name = nameOf(p)
		view.From = "via " + p.Author.Platform
		if p.Author.MemberID != "" {
			view.From = "member"
		} else if p.Author.Platform == "" {
			view.From = ""
		}
	}
	return view
}

// nameOf is what an author is called; "" when that is withheld.
func nameOf(p *reading.Post) string {
	if p.Author.MemberID != "" {
		return p.Author.MemberID
	}
	return p.Author.Name
}

// IndentClass is the class of the indentation.
func (v *postView) IndentClass() string { return "d" + strconv.Itoa(v.Indent) }

// post is the address of a comment.
func (l links) post(id string) string {
	if asOf := l.kept.Get("asOf"); asOf != "" {
		return address(l.path, map[string][]string{"asOf": {asOf}, "post": {id}}) + "#post-" + id
	}
	return l.path + "?post=" + id + "#post-" + id
}

// under is the address of the replies to a top-level comment from a cursor on.
func (l links) under(id, cursor string) string {
	query := map[string][]string{"under": {id}}
	for _, name := range []string{"sort", "asOf"} {
		if value := l.kept.Get(name); value != "" {
			query[name] = []string{value}
		}
	}
	if cursor != "" {
		query["cursor"] = []string{cursor}
	}
	return address(l.path, query)
}

// chapter is the address of the comments on a chapter.
func (l links) chapter(chapter string) string {
	return links{l.path, without(l.kept, "under")}.with("chapter", chapter)
}

func without(values map[string][]string, name string) map[string][]string {
	rest := map[string][]string{}
	for key, value := range values {
		if key != name {
			rest[key] = value
		}
	}
	return rest
}
