package pages

import (
	"time"

	"novelgate/aggregates/novel"
	"novelgate/readapi"
)

// linkedData describes a page with the vocabulary of schema.org, as JSON-LD. It is in a <script> element, but browsers
// do not run it.
type linkedData map[string]any

// book describes a novel.
func (p *Pages) book(n *readapi.Novel) linkedData {
	d := linkedData{
		"@context": "https://schema.org", "@type": "Book", "@id": p.Addresses.Novel(n.Slug), "name": n.Title,
		"url": p.Addresses.Novel(n.Slug), "discussionUrl": p.Addresses.Discussion(n.Slug), "commentCount": n.Posts,
	}
	for name, value := range map[string]string{
		"description": n.Synopsis, "inLanguage": lang(n.Language),
		"image": p.coverAddress(p.Addresses.Public(), n.Slug, n.CoverURL),
	} {
		if value != "" {
			d[name] = value
		}
	}
	if n.Author != novel.DefaultAuthor {
		d["author"] = linkedData{"@type": "Person", "name": n.Author}
	}
	if len(n.Genres) > 0 {
		d["genre"] = n.Genres
	}
	return d
}

// describedPostings limits the comments in the description of a page.
const describedPostings = 10

// postings describes the visible ones of the first top-level comments of a page.
func (p *Pages) postings(page *readapi.Page) any {
	about := linkedData{"@type": "Book", "@id": p.Addresses.Novel(page.Novel.Slug), "name": page.Novel.Title}
	var found []linkedData
	for i := range page.TopLevelComments[:min(len(page.TopLevelComments), describedPostings)] {
		post := &page.TopLevelComments[i].Post
		if post.Hidden || post.Erased {
			continue
		}
		address := p.Addresses.Post(page.Novel.Slug, post.ID)
		found = append(found, linkedData{
			"@context": "https://schema.org", "@type": "DiscussionForumPosting", "@id": address, "url": address,
			"headline": "Comment on " + page.Novel.Title, "text": excerpt(post.Content), "about": about,
			"author":        linkedData{"@type": "Person", "name": nameOf(post)},
			"datePublished": post.WrittenAt.UTC().Format(time.RFC3339),
		})
	}
	if found == nil {
		return nil
	}
	return found
}
