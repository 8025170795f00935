package request

import (
	"fmt"
	"strings"

	"novelgate/internal/title"
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

// Novel is the validated command to create or update a novel. nil means that the
// member was left out or null.
type Novel struct {
	Title         string // cleaned by title.Clean
	FoldedTitle   string // by title.Fold
	Author        *string
	Synopsis      *string // "" clears
	CoverURL      *string
	Language      *string   // "" clears
	Genres        *[]string // an empty list clears
	ReadingStatus *string   // ongoing, completed or hiatus
}

// The members of a novel, in the order of the documentation.
const (
	novelTitle = iota
	novelAuthor
	novelSynopsis
	novelCoverURL
	novelGenres
	novelLanguage
	novelReadingStatus
)

var novelNames = []string{"novel", "author", "synopsis", "coverUrl", "genres", "language", "readingStatus"}

// DecodeNovel reads and checks the body of an upsert. The error is a *problem.Error
// with the code invalid_request.
func DecodeNovel(body []byte) (Novel, error) {
	var o object
	if err := o.parse(body, novelNames); err != nil {
		return Novel{}, err
	}
	n := o.details(Novel{Title: o.title(novelTitle)})
	if err := o.err(); err != nil {
		return Novel{}, err
	}
	n.FoldedTitle = title.Fold(n.Title)
	return n, nil
}

// details reads all fields of a novel but its title.
func (o *object) details(n Novel) Novel {
	n.Author = o.optionalLine(novelAuthor, 1, maxAuthor)
	n.Synopsis = o.optionalText(novelSynopsis, maxSynopsis)
	n.CoverURL = o.coverURL(novelCoverURL)
	n.Genres = o.genres(novelGenres)
	n.Language = o.optionalLine(novelLanguage, 0, maxLanguage)
	n.ReadingStatus = o.readingStatus(novelReadingStatus)
	return n
}

// title reads the required novel title.
func (o *object) title(i int) string {
	s, ok := o.text(i, true)
	if !ok {
		return ""
	}
	s = title.Clean(s)
	if wrong := between(s, 1, title.MaxLen); wrong != "" {
		o.fail(i, "%s", wrong)
	}
	return s
}

// optionalLine reads trimmed text of low to high characters.
func (o *object) optionalLine(i, low, high int) *string {
	s, ok := o.text(i, false)
	if !ok {
		return nil
	}
	s = strings.TrimSpace(s)
	if wrong := between(s, low, high); wrong != "" {
		o.fail(i, "%s", wrong)
	}
	return &s
}

// optionalText reads text of any lines, exactly as sent.
func (o *object) optionalText(i, high int) *string {
	s, ok := o.text(i, false)
	if !ok {
		return nil
	}
	if wrong := between(s, 0, high); wrong != "" {
		o.fail(i, "%s", wrong)
	}
	return &s
}

func (o *object) coverURL(i int) *string {
	s, ok := o.text(i, false)
	if !ok {
		return nil
	}
	if wrong := checkCoverURL(s); wrong != "" {
		o.fail(i, "%s", wrong)
	}
	return &s
}

func (o *object) readingStatus(i int) *string {
	s, ok := o.text(i, false)
	if !ok {
		return nil
	}
	switch s {
	case "ongoing", "completed", "hiatus":
	default:
		o.fail(i, "must be ongoing, completed or hiatus, got %q", clip(s))
	}
	return &s
}

// genres reads the list of genres. Duplicates and order are kept.
func (o *object) genres(i int) *[]string {
	raw, ok := o.value(i, '[', false)
	if !ok {
		return nil
	}
	list := []string{}
	count := 0
	for entry := range elements(raw) {
		at := count
		if count++; at >= maxGenres {
			continue
		}
		field := fmt.Sprintf("%s[%d]", o.names[i], at)
		if entry.Kind() != '"' {
			o.failAt(field, "must be a string, got %s", Describe(entry.Kind()))
			continue
		}
		s := strings.TrimSpace(unquote(entry))
		if wrong := between(s, 1, maxGenre); wrong != "" {
			o.failAt(field, "%s", wrong)
		} else if hasNUL(s) {
			o.failAt(field, withoutNUL)
		}
		list = append(list, s)
	}
	if count > maxGenres {
		o.fail(i, "must have at most %d entries, got %s", maxGenres, thousands(count))
	}
	return &list
}
