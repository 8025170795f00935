package e2e_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"

	"novelgate/internal/testdb"
)

// TestWhatIsCompressed asks the service for everything with Accept-Encoding: what the public reads is compressed, and
// hashes and the live streams of auditors are not, so that every event of a stream arrives when it is sent.
func TestWhatIsCompressed(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	ada, p := s.NewStaff(t), s.NewPartner(t)
	title := Unique("Compressed")
	novel := p.Upsert(t, Key(),
		Fields{"novel": title, "synopsis": strings.Repeat("A boy finds a watch. ", 200)}).WantNovel(t, 201)
	for path, want := range map[string]string{
		"/novels/" + novel.Slug: "gzip", "/api/novels/" + novel.Slug: "gzip", "/openapi.yaml": "gzip",
		"/ledger/checkpoint": "", "/ledger/tile/entries/000.p/1": "", "/healthz": "", "/api/novels/nothing": "",
		"/api/events?limit=100": "", "/api/admin/integrations": "",
	} {
		var got string
		testdb.Eventually(t, path+" is there", func() bool {
			response := takingGzip(t, s.URL+path, ada.APIKey, "*/*")
			defer func() { _ = response.Body.Close() }()
			got = response.Header.Get("Content-Encoding")
			return response.StatusCode < 500 && (response.StatusCode == http.StatusOK || strings.HasSuffix(path, "nothing"))
		})
		if got != want {
			t.Errorf("%s is encoded with %q, want %q", path, got, want)
		}
	}

	stream := takingGzip(t, s.URL+"/api/events?follow=true&type=integration.registered.v1", ada.APIKey,
		"application/x-ndjson")
	defer func() { _ = stream.Body.Close() }()
	if got := stream.Header.Get("Content-Encoding"); got != "" || stream.StatusCode != http.StatusOK {
		t.Errorf("the live stream is %d, encoded with %q", stream.StatusCode, got)
	}
	fresh := s.NewPartner(t)
	for lines := bufio.NewScanner(stream.Body); ; {
		if !lines.Scan() {
			t.Fatalf("the stream ended before its event: %v", lines.Err())
		}
		if strings.Contains(lines.Text(), fresh.IntegrationID) {
			break
		}
	}
}

// takingGzip gets what comes over the wire: a header that is set is not the transport's own, which decompresses by
// itself.
func takingGzip(t *testing.T, url, key, accept string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true // leaves no idle connection behind
	request.Header.Set("Accept", accept)
	request.Header.Set("Accept-Encoding", "gzip")
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}
