package audit_test

import (
	"encoding/base64"
	"net/http"
	"testing"

	"github.com/google/uuid"
)

// TestWhatIsNoText sends what PostgreSQL takes for no text wherever an address holds any.
func TestWhatIsNoText(t *testing.T) {
	t.Parallel()
	a := newArchive(t, nil)
	a.publish(t, "One")
	a.seal(t)
	bads := map[string]string{
		"NUL": "%00", "NUL in a text": "a%00", "invalid UTF-8": "%ff", "a half of a pair": "a%ed%a0%80",
	}
	for name, inside := range map[string]string{"NUL in a cursor": "a\x00", "invalid UTF-8 in a cursor": "\xff/\xff"} {
		bads[name] = base64.RawURLEncoding.EncodeToString([]byte(inside))
	}
	stream := "/api/streams/novel/" + uuid.NewString()
	for what, bad := range bads {
		wants := map[string]int{
			"/api/events/" + bad:                                http.StatusNotFound,
			"/api/streams/novel/" + bad:                         http.StatusNotFound,
			"/api/events?cursor=" + bad:                         http.StatusBadRequest,
			"/api/access-log?cursor=" + bad:                     http.StatusBadRequest,
			"/api/events?follow=" + bad:                         http.StatusBadRequest,
			"/api/events?" + bad + "=a":                         http.StatusBadRequest,
			stream + "?cursor=" + bad:                           http.StatusBadRequest,
			"/api/streams/" + bad + "/" + uuid.NewString():      http.StatusNotFound,
			"/api/streams/" + bad + "/" + a.ottosKeyID.String(): http.StatusNotFound,
		}
		for _, name := range []string{"after", "before", "stream", "integration", "novel", "from", "to", "limit"} {
			wants["/api/events?"+name+"="+bad] = http.StatusBadRequest
		}
		if bad[0] == '%' || bad[1] == '%' {
			for _, name := range []string{"streamType", "type", "correlation"} {
				wants["/api/events?"+name+"="+bad] = http.StatusBadRequest
			}
		}
		for path, want := range wants {
			if got := a.get(t, a.otto, path); got.status != want {
				t.Errorf("%s: GET %s: %d %s, want %d", what, path, got.status, got.text, want)
			}
		}
	}
}

// TestZeroIsGiven: the first moment of the calendar and the nil UUID filter like any other.
func TestZeroIsGiven(t *testing.T) {
	t.Parallel()
	a := newArchive(t, nil)
	a.publish(t, "One")
	a.settle(t)
	none := uuid.Nil.String()
	for _, query := range []string{"to=0001-01-01T00:00:00Z", "stream=" + none, "integration=" + none, "novel=" + none} {
		if got := a.get(t, a.otto, "/api/events?"+query); got.status != http.StatusOK || len(got.ids(t)) != 0 {
			t.Errorf("%s: %d %s", query, got.status, got.text)
		}
	}
	if got := a.get(t, a.otto, "/api/events?from=0001-01-01T00:00:00Z"); got.status != http.StatusOK ||
		len(got.ids(t)) == 0 {
		t.Errorf("from the first moment on: %d %s", got.status, got.text)
	}
	c := a.open(t.Context(), t, a.otto, "/api/events?follow=true&to=0001-01-01T00:00:00Z", ndjson)
	if c.status != http.StatusBadRequest {
		t.Errorf("to follow up to the first moment: %d", c.status)
	}
}
