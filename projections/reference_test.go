package projections_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
)

// postRow and authorRow are what analysts see of a post and of an author.
type (
	postRow struct {
		PostID, ThreadID, NovelID, IntegrationID uuid.UUID
		AuthorID, ParentPostID                   uuid.NullUUID
		ChapterNumber                            *string
		Bytes                                    *int // of the text
		WrittenAt, ReceivedAt                    time.Time
		Hidden                                   bool
		MemberID                                 *string
	}
	authorRow struct {
		AuthorID, IntegrationID   uuid.UUID
		ExternalUUID, DisplayName string
		DisplayNameAt, FirstSeen  time.Time
	}
)

// referencePosts and referenceAuthors say, one event after another, what the projections must come to.
func referencePosts(log []events.Recorded) map[uuid.UUID]postRow {
	rows := map[uuid.UUID]postRow{}
	hidden := map[uuid.UUID]bool{}
	for _, recorded := range log {
		switch recorded.Event.(type) {
		case events.PostHidden:
			hidden[recorded.StreamID] = true
		case events.PostRestored:
			hidden[recorded.StreamID] = false
		default: // says nothing about that
		}
		e, ok := recorded.Event.(events.PostImported)
		if !ok {
			continue
		}
		row := postRow{
			PostID: recorded.StreamID, ThreadID: e.ThreadID, NovelID: e.NovelID, IntegrationID: e.IntegrationID,
			WrittenAt: e.WrittenAt, ReceivedAt: recorded.RecordedAt.UTC(),
		}
		if e.ParentPostID != nil {
			row.ParentPostID = uuid.NullUUID{UUID: *e.ParentPostID, Valid: true}
		}
		if e.ChapterNumber != nil {
			chapter := string(e.ChapterNumber)
			row.ChapterNumber = &chapter
		}
		if e.Comment != nil {
			row.AuthorID = uuid.NullUUID{UUID: events.AuthorID(e.IntegrationID, e.Comment.ExternalUUID), Valid: true}
			row.Bytes = new(len(e.Comment.Content))
		}
		rows[row.PostID] = row
	}
	for id, row := range rows {
		row.Hidden = hidden[id]
		rows[id] = row
	}
	return rows
}

func referenceAuthors(log []events.Recorded) map[uuid.UUID]authorRow {
	rows := map[uuid.UUID]authorRow{}
	for _, recorded := range log {
		e, ok := recorded.Event.(events.PostImported)
		if !ok || e.Comment == nil {
			continue
		}
		id := events.AuthorID(e.IntegrationID, e.Comment.ExternalUUID)
		row, known := rows[id]
		if !known {
			row = authorRow{
				AuthorID: id, IntegrationID: e.IntegrationID, ExternalUUID: e.Comment.ExternalUUID,
				FirstSeen: recorded.RecordedAt.UTC(),
			}
		}
		if !known || !e.WrittenAt.Before(row.DisplayNameAt) {
			row.DisplayName, row.DisplayNameAt = e.Comment.Username, e.WrittenAt
		}
		rows[id] = row
	}
	return rows
}

// readTables returns what analysts see.
func readTables(t testing.TB, pool *pgxpool.Pool) (posts map[uuid.UUID]postRow, authors map[uuid.UUID]authorRow) {
	t.Helper()
	posts, authors = map[uuid.UUID]postRow{}, map[uuid.UUID]authorRow{}
	rows, err := pool.Query(context.Background(), `SELECT post_id, thread_id, novel_id, integration_id, author_id, parent_post_id,
		chapter_number::text, content_bytes, written_at, received_at, hidden, member_id
		FROM (SELECT v.*, p.content_bytes FROM analytics.posts AS v JOIN posts AS p USING (post_id)) AS v`)
	if err != nil {
		t.Fatalf("read posts: %v", err)
	}
	var p postRow
	_, err = pgx.ForEachRow(rows, []any{
		&p.PostID, &p.ThreadID, &p.NovelID, &p.IntegrationID, &p.AuthorID, &p.ParentPostID,
		&p.ChapterNumber, &p.Bytes, &p.WrittenAt, &p.ReceivedAt, &p.Hidden, &p.MemberID,
	}, func() error {
		p.WrittenAt, p.ReceivedAt = p.WrittenAt.UTC(), p.ReceivedAt.UTC()
		posts[p.PostID] = p
		return nil
	})
	if err != nil {
		t.Fatalf("read posts: %v", err)
	}
	rows, err = pool.Query(context.Background(), `SELECT author_id, integration_id, external_uuid, display_name, display_name_at, first_seen_at
		FROM analytics.authors`)
	if err != nil {
		t.Fatalf("read authors: %v", err)
	}
	var a authorRow
	_, err = pgx.ForEachRow(rows,
		[]any{&a.AuthorID, &a.IntegrationID, &a.ExternalUUID, &a.DisplayName, &a.DisplayNameAt, &a.FirstSeen}, func() error {
			a.DisplayNameAt, a.FirstSeen = a.DisplayNameAt.UTC(), a.FirstSeen.UTC()
			authors[a.AuthorID] = a
			return nil
		})
	if err != nil {
		t.Fatalf("read authors: %v", err)
	}
	return posts, authors
}

// assertTables fails unless posts and authors hold what the log says.
func assertTables(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	log := readAll(t, pool)
	posts, authors := readTables(t, pool)
	if diff := difference(referencePosts(log), posts); diff != "" {
		t.Errorf("posts differ (-log +table):\n%.2000s", diff)
	}
	if diff := difference(referenceAuthors(log), authors); diff != "" {
		t.Errorf("authors differ (-log +table):\n%.2000s", diff)
	}
	want := map[uuid.UUID]string{}
	for _, recorded := range log {
		if e, ok := recorded.Event.(events.PostImported); ok && e.Comment != nil && !posts[recorded.StreamID].Hidden {
			want[recorded.StreamID] = recorded.ID + ": " + e.Comment.Content
		}
	}
	if diff := difference(want, readTexts(t, pool)); diff != "" {
		t.Errorf("texts differ (-log +view):\n%.2000s", diff)
	}
}

// readTexts returns the keys and texts that analysts see.
func readTexts(t testing.TB, pool *pgxpool.Pool) map[uuid.UUID]string {
	t.Helper()
	rows, err := pool.Query(context.Background(),
		`SELECT post_id, idempotency_key || ': ' || content FROM analytics.posts WHERE content IS NOT NULL`)
	if err != nil {
		t.Fatalf("read texts: %v", err)
	}
	texts := map[uuid.UUID]string{}
	var id uuid.UUID
	var text string
	if _, err := pgx.ForEachRow(rows, []any{&id, &text}, func() error {
		texts[id] = text
		return nil
	}); err != nil {
		t.Fatalf("read texts: %v", err)
	}
	return texts
}

// difference is cmp.Diff for tens of thousands of rows, which it would take its time for although they are equal.
func difference(want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return cmp.Diff(want, got)
}
