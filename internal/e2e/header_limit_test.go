package e2e_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestHeaderLimits: the longest headers that partners send through proxies are accepted, larger ones refused.
func TestHeaderLimits(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Headers")
	usual := http.Header{
		"Traceparent":     {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		"Tracestate":      {strings.Repeat("t", 512)},
		"X-Request-Id":    {strings.Repeat("r", 128)},
		"X-Forwarded-For": {strings.Repeat("2001:db8:85a3:8d3:1319:8a2e:370:7348, ", 5) + "192.0.2.1"},
		"User-Agent":      {strings.Repeat("u", 300)},
		"Cookie":          {"session=" + strings.Repeat("c", 4096)},
	}
	for i := range 40 {
		usual.Set(fmt.Sprintf("X-Proxy-%d", i), "value")
	}
	many := http.Header{}
	for i := range 65 {
		many.Set(fmt.Sprintf("A%d", i), "")
	}
	send := func(header http.Header) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.Service.URL+PostsPath,
			bytes.NewReader(Comment(title).JSON(t)))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = header.Clone()
		request.Header.Set("Authorization", "Bearer "+p.APIKey)
		request.Header.Set("Idempotency-Key", Key()+strings.Repeat("k", 255-len(Key())))
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	if status := send(usual); status != http.StatusCreated {
		t.Errorf("usual headers: status %d, want 201", status)
	}
	for name, header := range map[string]http.Header{
		"fields": many, "bytes": {"Cookie": {strings.Repeat("c", 8<<10)}},
	} {
		if status := send(header); status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("too many %s: status %d, want 431", name, status)
		}
	}
}
