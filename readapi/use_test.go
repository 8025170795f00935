//go:build look

package readapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/events"
)

// remarks and readers are what readers of a platform in use say, and who they are.
var (
	remarks = []string{
		"I stayed up until three in the morning. The scene in the clock tower is the best that the author has written so far.",
		"Does anybody know whether the translation catches up with the original this year?",
		"The pacing of this arc is slow, but it pays off.\n\nMy theory: the apprentice is the daughter of the watchmaker. " +
			"Look at the description of her hands in chapter 4, and then at what the old man says about hands.",
		"First!", "Thank you for the chapter.", "这一章太精彩了！", "Same here.",
		"No, the author said on her site that the third volume comes first.",
	}
	readers = []string{
		"marlow", "Ida", "the_reader_of_night", "Wen Qing", "Ольга", "j.k.", "A Very Long Name Of A Reader Who Likes It So",
	}
)

func remark(i int, at time.Time) events.PostImported {
	reader := readers[i%len(readers)]
	return events.PostImported{
		WrittenAt: at,
		Comment:   &events.Comment{ExternalUUID: reader, Username: reader, Content: remarks[i%len(remarks)]},
	}
}

// populate fills w as a platform in use is: novels in several languages and states, discussions of any size, the largest
// of 20,000 comments. It returns a comment of the first one.
func populate(t *testing.T, w *world) (linked uuid.UUID) {
	t.Helper()
	now := time.Now().UTC()
	synopsis := "In a city whose clocks all stopped on the same night, an apprentice finds a watch that still runs, backwards. " +
		"Whoever carries it remembers what has not happened yet, and somebody wants it back.\n\n" +
		strings.Repeat("The guild of clockmakers has kept its secret for three hundred years. ", 4)
	for i, n := range []struct {
		title, author, language, status string
		genres                          []string
		comments                        int
	}{
		{"The Clockmaker’s Apprentice", "Ida Verne", "en", "ongoing", []string{"Fantasy", "Mystery", "Slow burn"}, 60},
		{"紅樓夢", "曹雪芹", "zh", "completed", []string{"Classic", "Romance"}, 12},
		{"ألف ليلة وليلة", "Unknown", "ar", "completed", nil, 1},
		{
			"A Title of the Kind That Web Novels Have: I Was Reborn as the Villainess’s Cat and Must Save the Kingdom",
			"Nora Quill", "ja", "hiatus",
			[]string{"Comedy", "Isekai", "Romance", "Slice of life", "Female lead"},
			4,
		},
		{"Salt", "R. Okafor", "", "", nil, 0},
		{"Преступление и наказание", "Фёдор Достоевский", "ru", "completed", []string{"Classic"}, 3},
	} {
		id := w.novel(t, n.title, func(e *events.NovelCreated) {
			e.Slug, e.Author, e.Synopsis = fmt.Sprint("use-", i), n.author, synopsis
			e.Genres, e.ReadingStatus, e.Language = n.genres, n.status, n.language
			switch n.title {
			case "Salt":
				e.Synopsis = ""
			case "紅樓夢":
				hosted(e)
			}
		})
		var last uuid.UUID
		for j := range n.comments {
			e := remark(i+j, now.Add(-time.Duration((n.comments-j)*(1+i*i))*47*time.Minute))
			if j%3 != 0 {
				e.ChapterNumber = fmt.Append(nil, j%24)
			}
			if j%4 == 3 || j%8 == 6 {
				e.ParentPostID = new(last)
			}
			if i == 0 && j == n.comments/2 {
				linked = last
			}
			last = w.comment(t, id, e)
		}
	}
	large := w.novel(t, "The Long Road", func(e *events.NovelCreated) {
		e.Author, e.Synopsis, e.Genres, e.ReadingStatus = "Hana Mori", synopsis, []string{"Adventure"}, "ongoing"
		e.Language = "ko"
	})
	const comments = 20_000
	var top uuid.UUID
	for i := range comments {
		e := remark(i, now.Add(-time.Duration(comments-i)*7*time.Minute))
		if i%2 == 0 {
			e.ChapterNumber = fmt.Append(nil, i/100)
		}
		if i%3 > 0 {
			e.ParentPostID = new(top)
			w.comment(t, large, e)
			continue
		}
		top = w.comment(t, large, e)
	}
	w.project(t)
	return linked
}
