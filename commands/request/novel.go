package request

import (
	"fmt"
	"strings"

	"novelgate/aggregates/novel"
	"novelgate/internal/title"
	"novelgate/internal/web"
)

// The limits of a novel's fields in characters and entries.
const (
	maxAuthor   = 120
	maxSynopsis = 5_000
	maxCoverURL = 2_000
	maxGenres   = 20
	maxGenre    = 50
	maxLanguage = 50
)

// Novel is the validated command to create or update a novel. nil means that the member was omitted or null.
type Novel struct {
	Title        string   // cleaned by title.Clean
	FoldedTitle  string   // by title.Fold
	novel.Fields          // an empty synopsis, cover, language or list of genres clears
	Unknown      []string // members that are ignored; see web.Object.Unknown
}

// NovelMembers are the members of a novel, in the order of the documentation.
var NovelMembers = []string{"novel", "author", "synopsis", "coverUrl", "genres", "language", "readingStatus"}

// DecodeNovel decodes and validates the body of an upsert. The error is a *problem.Error with the code invalid_request.
func DecodeNovel(body []byte) (Novel, error) {
	var o object
	if err := o.Parse(body, NovelMembers); err != nil {
		return Novel{}, err
	}
	n := o.details(Novel{Title: o.title()})
	if err := o.Err(); err != nil {
		return Novel{}, err
	}
	n.FoldedTitle, n.Unknown = title.Fold(n.Title), o.Unknown()
	return n, nil
}

// details reads all fields of a novel except its title.
func (o *object) details(n Novel) Novel {
	n.Author = o.optional("author", strings.TrimSpace, visible(maxAuthor))
	n.Synopsis = o.optional("synopsis", asSent, length(0, maxSynopsis))
	n.CoverURL = o.optional("coverUrl", asSent, checkCoverURL)
	n.Genres = o.genres("genres")
	n.Language = o.optional("language", strings.TrimSpace, length(0, maxLanguage))
	n.ReadingStatus = o.optional("readingStatus", asSent, checkReadingStatus)
	return n
}

// title reads the required title of a novel.
func (o *object) title() string { return o.required("novel", title.Clean, visible(title.MaxLen)) }

func checkReadingStatus(s string) string {
	switch s {
	case "ongoing", "completed", "hiatus":
		return ""
	default:
		return fmt.Sprintf("must be ongoing, completed or hiatus, got %q", web.Clip(s))
	}
}

// genres reads the list of genres. Duplicates and order are kept.
func (o *object) genres(name string) *[]string {
	list := []string{}
	if !o.Texts(name, false, 0, maxGenres, func(field, s string) {
		s = strings.TrimSpace(s)
		o.refuse(field, checkVisible(s, maxGenre))
		list = append(list, s)
	}) {
		return nil
	}
	return &list
}

// StaffNovel is the validated command of staff to publish a title or to edit a canonical novel. Its fields have the
// rules of an upsert.
type StaffNovel struct {
	Novel         // without a title in an edit
	Reason string // "" when none was given
}

var staffNovelNames = append(NovelMembers[:len(NovelMembers):len(NovelMembers)], "reason")

// DecodePublication decodes and validates the body of a publication by staff. Unlike in an upsert, an unknown member is
// refused. The error is a *problem.Error with the code invalid_request.
func DecodePublication(body []byte) (StaffNovel, error) {
	o := object{web.Object{Strict: true}}
	if err := o.Parse(body, staffNovelNames); err != nil {
		return StaffNovel{}, err
	}
	return o.staffNovel(o.title())
}

// DecodeEdit decodes and validates the body of an edit by staff, like DecodePublication. A title is refused.
func DecodeEdit(body []byte) (StaffNovel, error) {
	o := object{web.Object{Strict: true}}
	if err := o.Parse(body, staffNovelNames); err != nil {
		return StaffNovel{}, err
	}
	if o.Given("novel") {
		o.Fail("novel", "cannot be changed: a title stays as it is")
	} else {
		_, _ = o.Text("novel", optional) // refuses the name in another case as an unknown member
	}
	return o.staffNovel("")
}

func (o *object) staffNovel(cleaned string) (StaffNovel, error) {
	n := StaffNovel{Novel: o.details(Novel{Title: cleaned, FoldedTitle: title.Fold(cleaned)})}
	n.Reason, _ = o.Text("reason", optional)
	return n, o.Err()
}
