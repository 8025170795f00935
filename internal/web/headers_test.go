package web_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/internal/problem"
	"novelgate/internal/web"
)

func TestMediaTypes(t *testing.T) {
	t.Parallel()
	for sent, taken := range map[string]bool{
		"application/json": true, "application/json; charset=utf-8": true, "application/json;charset=UTF-8": true,
		`application/json; charset="utf-8"; x=y`: true, "Application/JSON": true,
		"": false, "text/plain": false, "text/json": false, "application/x-www-form-urlencoded": false,
		"multipart/form-data; boundary=x": false, "application/jsonp": false, "application/json-patch+json": false,
		"application/problem+json": false, "application/*": false, "json": false,
		`application/xml; alt="application/json"`: false,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("{}"))
		r.Header.Set("Content-Type", sent)
		_, err := web.ReadJSON(httptest.NewRecorder(), r, 100)
		if taken && err != nil || !taken && !errors.Is(err, problem.UnsupportedMediaType("", "")) {
			t.Errorf("%q: %v", sent, err)
		}
	}
}

// TestContentCodings: a body that is packed in a way that the route does not take is refused by the name of the coding.
func TestContentCodings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sent []string
		want string // "": taken
	}{
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"Identity"}, ""},
		{[]string{"gzip"}, `The Content-Encoding must be absent, got "gzip".`},
		{[]string{"br, gzip"}, `The Content-Encoding must be absent, got "br, gzip".`},
		{[]string{"identity", "zstd"}, `The Content-Encoding must be absent, got "identity, zstd".`},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("{}"))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Content-Encoding": c.sent}
		_, err := web.ReadJSON(httptest.NewRecorder(), r, 100)
		refused, _ := errors.AsType[*problem.Error](err)
		if c.want == "" && err != nil || c.want != "" && (refused == nil || refused.Detail != c.want ||
			refused.Code != problem.CodeUnsupportedMediaType) {
			t.Errorf("%q: %v, want %q", c.sent, err, c.want)
		}
	}
}

func TestAcceptsByName(t *testing.T) {
	t.Parallel()
	const lines = "application/x-ndjson"
	for accept, want := range map[string]bool{
		"": false, "*/*": false, lines: true, lines + ";q=0.5": true, lines + ";q=0": false, lines + ";q=0.000, */*": false,
		"application/json, " + lines + " ": true,
	} {
		if got := web.AcceptsByName(&http.Request{Header: http.Header{"Accept": {accept}}}, lines); got != want {
			t.Errorf("Accept %q: %t, want %t", accept, got, want)
		}
	}
}

func TestBearer(t *testing.T) {
	t.Parallel()
	for key, headers := range map[string][][]string{
		"key": {{"Bearer key"}, {"bearer key"}, {"BEARER  key "}},
		"":    {{"Bearer "}},
		"refused": {
			nil, {""}, {"key"}, {"Bearer"}, {"Basic key"}, {"Bearerkey"}, {"Bearer key", "Bearer key"}, {" Bearer key"},
		},
	} {
		for _, sent := range headers {
			got, err := web.Bearer(http.Header{"Authorization": sent})
			refused := errors.Is(err, problem.New(problem.CodeUnauthorized, ""))
			if key == "refused" && !refused || key != "refused" && (err != nil || got != key) {
				t.Errorf("%q: %q, %v", sent, got, err)
			}
		}
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	visible := new(bytes.Buffer)
	for c := byte('!'); c <= '~'; c++ {
		visible.WriteByte(c)
	}
	seen := map[string]bool{}
	for sent, kept := range map[string]bool{
		"x": true, "run-17/42": true, visible.String(): true, strings.Repeat("i", 128): true,
		"": false, "a b": false, "tab\there": false, "é": false, "\x7f": false, strings.Repeat("i", 129): false,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header.Set("X-Request-Id", sent)
		w := httptest.NewRecorder()
		var inside string
		router := mux.NewRouter()
		router.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) { inside = web.RequestID(r.Context()) })
		new(web.Kit).Handler(router, nil).ServeHTTP(w, r)
		id := w.Header().Get("X-Request-Id")
		if id != inside || kept != (id == sent) || seen[id] {
			t.Errorf("%q became %q, and %q for the handlers", sent, id, inside)
		}
		if parsed, err := uuid.Parse(id); !kept && (err != nil || parsed.Version() != 7) {
			t.Errorf("request ID %q, want a UUID of version 7", id)
		}
		seen[id] = true
	}
}
