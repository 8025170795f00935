package e2e_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"novelgate/client"
	"novelgate/internal/testdb"
)

// feed reads a partner's change feed to its end, with the client.
func (p *Partner) feed(t testing.TB) (changes []client.Change) {
	t.Helper()
	c := p.Client(t, p.Service.URL)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for cursor := ""; ; {
		page := testdb.Must(c.Changes.Page(ctx, cursor))(t)
		changes = append(changes, page.Changes...)
		if page.NextCursor == nil {
			return changes
		}
		cursor = *page.NextCursor
	}
}

// TestLiveFeed: a stream sends changes at once, and ends when the key is revoked.
func TestLiveFeed(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	ada, p := s.NewStaff(t), s.NewPartner(t)
	novel := p.Upsert(t, "n", Fields{"novel": Unique("Live")}).WantNovel(t, 201)
	streams := make([]io.Reader, 4)
	for i := range streams {
		r := testdb.Must(http.NewRequestWithContext(t.Context(), http.MethodGet,
			s.URL+"/api/integrations/changes?follow=true&cursor=now", nil))(t)
		r.Header.Set("Authorization", "Bearer "+p.APIKey)
		r.Header.Set("Accept", "application/x-ndjson")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		if streams[i] = response.Body; response.StatusCode != http.StatusOK {
			t.Fatalf("stream %d: status %d", i, response.StatusCode)
		}
	}
	ada.Reject(t, novel.NovelID)
	for i, stream := range streams {
		lines := bufio.NewScanner(stream)
		for lines.Scan() && lines.Text() == "" { // a heartbeat
			continue
		}
		if !strings.Contains(lines.Text(), `"novel.rejected"`) {
			t.Errorf("stream %d: %q, %v", i, lines.Text(), lines.Err())
		}
	}
	s.RevokeKey(t, p.KeyID)
	for i, stream := range streams {
		for lines := bufio.NewScanner(stream); ; {
			if !lines.Scan() {
				if lines.Err() == nil {
					t.Errorf("stream %d looks complete", i)
				}
				break
			}
		}
	}
}
