package reference

import (
	"cmp"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"novelgate/events"
)

type postRow struct {
	PostID           uuid.UUID      `json:"post_id"`
	ThreadID         uuid.UUID      `json:"thread_id"`
	NovelID          uuid.UUID      `json:"novel_id"`
	IntegrationID    uuid.UUID      `json:"integration_id"`
	AuthorID         *uuid.UUID     `json:"author_id"`
	ParentPostID     *uuid.UUID     `json:"parent_post_id"`
	ChapterNumber    jsontext.Value `json:"chapter_number"`
	ContentBytes     *int           `json:"content_bytes"`
	WrittenAt        *moment        `json:"written_at"`
	RecordedAt       *moment        `json:"recorded_at"`
	Hidden           bool           `json:"hidden"`
	ModeratedAt      *moment        `json:"moderated_at"`
	ModeratedVersion *int           `json:"moderated_version"`
	RootPostID       *uuid.UUID     `json:"root_post_id"`
	Depth            int            `json:"depth"`
}

type authorRow struct {
	AuthorID            uuid.UUID `json:"author_id"`
	IntegrationID       uuid.UUID `json:"integration_id"`
	ExternalUUID        string    `json:"external_uuid"`
	DisplayName         string    `json:"display_name"`
	DisplayNameAt       *moment   `json:"display_name_at"`
	DisplayNameLogIndex int64     `json:"display_name_log_index"`
	FirstSeenAt         *moment   `json:"first_seen_at"`
}

// addPost applies an imported comment to the table posts.
func (f *Fold) addPost(r *events.Recorded, e events.PostImported) {
	p := &postRow{
		PostID: r.StreamID, ThreadID: e.ThreadID, NovelID: e.NovelID, IntegrationID: e.IntegrationID,
		ParentPostID: e.ParentPostID, ChapterNumber: numeric(e.ChapterNumber), WrittenAt: at(e.WrittenAt),
		RecordedAt: at(r.RecordedAt),
	}
	if e.Comment != nil {
		author := events.AuthorID(e.IntegrationID, e.Comment.ExternalUUID)
		p.AuthorID, p.ContentBytes = &author, new(len(e.Comment.Content))
	}
	if e.ParentPostID != nil {
		if parent := f.posts[*e.ParentPostID]; parent != nil {
			p.RootPostID, p.Depth = cmp.Or(parent.RootPostID, &parent.PostID), parent.Depth+1
		}
	}
	f.posts[p.PostID] = p
}

func (f *Fold) moderate(r *events.Recorded, hidden bool) {
	if p := f.posts[r.StreamID]; p != nil {
		p.Hidden, p.ModeratedAt, p.ModeratedVersion = hidden, at(r.RecordedAt), new(r.StreamVersion)
	}
}

// nameAuthor applies an imported comment to the table authors: the comment with the latest WrittenAt names the author,
// of several the last one in the log.
func (f *Fold) nameAuthor(r *events.Recorded, e events.PostImported) {
	if e.Comment == nil {
		return
	}
	id := events.AuthorID(e.IntegrationID, e.Comment.ExternalUUID)
	a := rowOf(f.authors, id, authorRow{
		AuthorID: id, IntegrationID: e.IntegrationID, ExternalUUID: e.Comment.ExternalUUID, FirstSeenAt: at(r.RecordedAt),
		DisplayNameAt: at(e.WrittenAt),
	})
	if !e.WrittenAt.Before(time.Time(*a.DisplayNameAt)) {
		a.DisplayName, a.DisplayNameAt, a.DisplayNameLogIndex = e.Comment.Username, at(e.WrittenAt), r.LogIndex
	}
}

// numeric converts a JSON number to PostgreSQL's form, which keeps all digits after the point: 1.50e1 becomes 15.0.
func numeric(number jsontext.Value) jsontext.Value {
	if number == nil {
		return nil
	}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(string(number)), "e")
	_, fraction, _ := strings.Cut(mantissa, ".")
	power, _ := strconv.Atoi(exponent) // 0 without an exponent
	value, ok := new(big.Rat).SetString(string(number))
	if !ok {
		return number // not a number: the comparison with the database fails
	}
	return jsontext.Value(value.FloatString(max(0, len(fraction)-power)))
}
