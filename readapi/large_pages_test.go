package readapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/readapi"
)

// fillLarge writes a discussion of top-level comments with replies, each of 31 KB.
func fillLarge(t *testing.T, w *world, tops, replies int) {
	t.Helper()
	w.exec(t, `WITH keys AS (
			SELECT n, r, n || '/' || r AS key, CASE WHEN r > 0 THEN n || '/0' END AS top
			FROM generate_series(1, $2) n, generate_series(0, $3) r
		), written AS (
			SELECT n, r, key, encode(substring(sha256(uuid_send($1) || convert_to(key, 'UTF8')) FOR 16), 'hex')::uuid AS id,
				encode(substring(sha256(uuid_send($1) || convert_to(top, 'UTF8')) FOR 16), 'hex')::uuid AS top_id
			FROM keys
		), numbered AS (
			SELECT *, (SELECT max(log_index) FROM events) + row_number() OVER (ORDER BY n, r) AS log_index FROM written
		), logged AS (
			INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, integration_id, event_source,
				event_type, data, personal, batch_id)
			SELECT log_index, 'post', id, 1, key, $1, 'posts', 'post.imported.v1',
				'{}', json_build_object('content', repeat('&', 31000)), id
			FROM numbered
		)
		INSERT INTO posts (post_id, thread_id, novel_id, integration_id, author_id, content_bytes, written_at, recorded_at,
			changed_at, log_index, parent_post_id, root_post_id, depth)
		SELECT id, t.thread_id, t.novel_id, $1, md5('author')::uuid, 31000,
			timestamptz '2025-01-01' + n * interval '1 minute' + r * interval '1 second',
			timestamptz '2025-01-01' + n * interval '1 minute' + r * interval '1 second', now(), log_index,
			top_id, top_id, CASE WHEN r > 0 THEN 1 ELSE 0 END
		FROM threads t, numbered WHERE t.novel_id = (SELECT novel_id FROM title_lookup WHERE slug = 'a')`, w.platform, tops, replies)
}

// textOf returns the size of the text on a page, and counts its comments in seen.
func textOf(page *readapi.Page, seen map[uuid.UUID]int) (size int) {
	for _, thread := range page.TopLevelComments {
		size += len(thread.Content)
		seen[thread.ID]++
		for _, reply := range thread.Replies {
			size += len(reply.Content)
			seen[reply.ID]++
		}
	}
	return size
}

// TestLargePagesAreCut: however large comments are, a page has no more text than its limit, and its cursors reach every
// comment: in both orders, forward and backward.
func TestLargePagesAreCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.novel(t, "A", nil)
	const tops, replies = 7, 25
	fillLarge(t, w, tops, replies)
	reader := &readapi.Reader{DB: w.Read}
	read := func(q readapi.DiscussionParams) *readapi.Page {
		t.Helper()
		page := testdb.Must(reader.Discussion(t.Context(), q))(t)
		if len(page.TopLevelComments) == 0 {
			t.Fatal("a page is empty")
		}
		return page
	}
	within := func(page *readapi.Page, seen map[uuid.UUID]int) {
		t.Helper()
		if size := textOf(page, seen); size > readapi.PageBytes || size == 0 {
			t.Errorf("a page holds %d bytes of text, at most %d are wanted", size, readapi.PageBytes)
		}
	}
	for _, newest := range []bool{false, true} {
		seen := map[uuid.UUID]int{}
		q := readapi.DiscussionParams{Slug: "a", Newest: newest, Limit: 100}
		var first []uuid.UUID // of each page
		for more := true; more; more = q.Cursor != "" {
			page := read(q)
			within(page, seen)
			first = append(first, page.TopLevelComments[0].ID)
			for _, thread := range page.TopLevelComments {
				for under := (readapi.DiscussionParams{
					Slug: "a", Limit: 100, Under: uuid.NullUUID{UUID: thread.ID, Valid: true}, Cursor: string(thread.RepliesCursor),
				}); under.Cursor != ""; {
					rest := read(under)
					delete(seen, thread.ID) // it is on every page of its replies
					within(rest, seen)
					if len(rest.TopLevelComments[0].Replies) == 0 {
						t.Fatal("a page of replies has none")
					}
					under.Cursor = string(rest.TopLevelComments[0].RepliesCursor)
				}
			}
			q.Cursor = string(page.Next)
		}
		if len(seen) != tops*(replies+1) {
			t.Errorf("newest %v: %d of %d comments are on the pages", newest, len(seen), tops*(replies+1))
		}
		for id, times := range seen {
			if times != 1 {
				t.Errorf("newest %v: comment %s is on %d pages", newest, id, times)
			}
		}
		// Back from the end: every top-level comment again.
		last := read(readapi.DiscussionParams{Slug: "a", Newest: !newest, Limit: 1})
		var back []uuid.UUID
		end := read(readapi.DiscussionParams{
			Slug: "a", Newest: newest, Limit: 100, Post: uuid.NullUUID{UUID: last.TopLevelComments[0].ID, Valid: true},
		})
		for page := end; ; {
			for _, thread := range slices.Backward(page.TopLevelComments) {
				back = append(back, thread.ID)
			}
			if page.Previous == "" {
				break
			}
			page = read(readapi.DiscussionParams{Slug: "a", Newest: newest, Limit: 100, Cursor: string(page.Previous)})
			within(page, map[uuid.UUID]int{})
		}
		if len(back) != tops || back[tops-1] != first[0] {
			t.Errorf("newest %v: %d of %d top-level comments on the way back", newest, len(back), tops)
		}
	}
	// A link to any comment leads to a page with it.
	all := testdb.Values[uuid.UUID](t, w.Read, `SELECT post_id FROM posts`)
	for _, id := range all {
		seen := map[uuid.UUID]int{}
		within(read(readapi.DiscussionParams{Slug: "a", Limit: 20, Post: uuid.NullUUID{UUID: id, Valid: true}}), seen)
		if seen[id] != 1 {
			t.Errorf("comment %s is not on the page that is to show it", id)
		}
	}
}

// TestLargeAnswersAreBounded: answers are limited, too: escaping makes text at most five times as large.
func TestLargeAnswersAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.novel(t, "A", nil)
	for i := range 100 {
		w.novel(t, fmt.Sprint("Long ", i), func(e *events.NovelCreated) { e.Synopsis = strings.Repeat("界", 5000) })
	}
	w.project(t)
	fillLarge(t, w, 4, 12)
	for path, most := range map[string]int{
		"/novels/a/discussion?limit=100":     5*readapi.PageBytes + 64<<10,
		"/api/novels/a/discussion?limit=100": readapi.PageBytes + 64<<10,
		"/novels?limit=100":                  2 * 300 << 10, "/api/novels?limit=100": 300 << 10,
	} {
		recorder := httptest.NewRecorder()
		w.handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if size := recorder.Body.Len(); recorder.Code != http.StatusOK || size > most || size < 100<<10 {
			t.Errorf("%s: %d, %d bytes, want at most %d", path, recorder.Code, size, most)
		}
	}
}
