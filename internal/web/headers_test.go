package web_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/internal/problem"
	"novelgate/internal/testdb"
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

// TestPathsAsSent: the fixed part of a path is not decoded, so that a rule of a proxy for it holds. Variables are.
func TestPathsAsSent(t *testing.T) {
	t.Parallel()
	router := mux.NewRouter().SkipClean(true)
	for _, path := range []string{"/api/admin/{id}", "/keys/{key:(?s:.*)}"} {
		router.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, mux.Vars(r)["id"]+mux.Vars(r)["key"])
		}).Methods(http.MethodGet)
	}
	handler := new(web.Kit).Handler(router, nil)
	const nothing = "There is nothing at this address."
	const odd = nothing + " Separate the parts of its path"
	for path, want := range map[string]string{
		"/api/admin/a": "a", "/api/admin/a%2Fb": "a/b", "/api/admin/a%2fb|": "a/b|", "/api/admin/%E6%97%A5日": "日日",
		"/api/admin/%252F": "%2F", "/keys/a%2Fb//../c%5C": `a/b//../c\`, "/keys/": "",
		"/api%2Fadmin/a": odd, "/api%2fadmin/a": odd, "/api%2Fadmin/a|": odd, "/api%5Cadmin/a": odd, `/api\admin/a`: odd,
		"//api/admin/a": odd, "/api//admin/a": odd, "/api/./admin/a": odd, "/api/%2e/admin/a": odd,
		"/x/../api/admin/a": odd, "/api/admin//a": odd, "/api%252Fadmin/a": nothing, "/api/%61dmin/a": nothing,
		"/api/%61dmin/a|": nothing, "/api/admin/a/": nothing,
	} {
		address := testdb.Must(url.ParseRequestURI(path))(t)
		r := (&http.Request{Method: http.MethodGet, URL: address}).WithContext(t.Context())
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if refused := strings.HasPrefix(want, nothing); refused != (w.Code == http.StatusNotFound) ||
			refused && !strings.Contains(w.Body.String(), want) || !refused && w.Body.String() != want ||
			want == nothing && strings.Contains(w.Body.String(), odd) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		r.Method = http.MethodPost
		w = httptest.NewRecorder()
		if handler.ServeHTTP(w, r); (w.Code == http.StatusNotFound) != strings.HasPrefix(want, nothing) {
			t.Errorf("POST %s: %d %s", path, w.Code, w.Body)
		}
	}
}
