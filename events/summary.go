package events

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// summarised has what is worth a word, of all types of events. Their data does not use a name for two things.
type summarised struct {
	Reason     string `json:"reason"`
	Reports    int    `json:"reports"`
	Name       string `json:"name"`
	Capability string `json:"capability"`
	Operation  string `json:"operation"`
	PerMinute  int    `json:"perMinute"`
	Review     *bool  `json:"review"`
	Prefix     string `json:"prefix"`
	KeyID      string `json:"keyId"`
	ExpiresAt  string `json:"expiresAt"`

	NewText       bool           `json:"newText"`
	NewChapter    bool           `json:"newChapter"`
	Chapter       jsontext.Value `json:"chapter"`
	FormerChapter jsontext.Value `json:"formerChapter"`
}

// Summary returns what an event records besides its type, such as the reason, as a line without personal data; "" for
// nothing. It takes the data as stored, also of a type that this version does not know.
func Summary(eventType string, data []byte) string {
	var e summarised
	if json.Unmarshal(data, &e) != nil {
		return "" // a newer type may use a name for something else
	}
	var parts []string
	say := func(when bool, format string, values ...any) {
		if when {
			parts = append(parts, fmt.Sprintf(format, values...))
		}
	}
	edit := strings.HasPrefix(eventType, "post.edited.")
	say(e.Name != "", "%s", e.Name)
	say(e.Capability != "", "%s", e.Capability)
	say(e.Operation != "", "%s: %d per minute", e.Operation, e.PerMinute)
	if e.Review != nil {
		say(*e.Review, "on")
		say(!*e.Review, "off")
	}
	say(e.Prefix != "", "key %s", e.Prefix)
	say(e.Prefix == "" && e.KeyID != "", "key %s", e.KeyID)
	say(e.ExpiresAt != "", "expires %s", e.ExpiresAt)
	say(edit && e.NewText, "new text")
	former, chapter := chapterName(e.FormerChapter), chapterName(e.Chapter)
	say(edit && e.NewChapter && former != chapter, "chapter %s → %s", former, chapter)
	say(edit && !e.NewText && !e.NewChapter, "no change: a later edit came before")
	if strings.HasPrefix(eventType, "novel.updated.") {
		fields := changedFields(data)
		say(fields == "", "no change")
		say(fields != "", "%s", fields)
	}
	say(e.Reason != "", "%s", e.Reason)
	say(e.Reports == 1, "1 reader")
	say(e.Reports > 1, "%d readers", e.Reports)
	return strings.Join(parts, "; ")
}

func chapterName(number jsontext.Value) string {
	if len(number) == 0 || number.Kind() == 'n' {
		return "none"
	}
	return string(number)
}

// changedFields names the fields in the data of a NovelUpdated.
func changedFields(data []byte) string {
	var given map[string]jsontext.Value
	if json.Unmarshal(data, &given) != nil {
		return ""
	}
	var fields []string
	for _, name := range []string{"author", "synopsis", "coverUrl", "genres", "language", "readingStatus"} {
		if _, ok := given[name]; ok {
			fields = append(fields, name)
		}
	}
	return strings.Join(fields, ", ")
}
