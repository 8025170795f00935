package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestUnknownPaths(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewPartner(t)
	for _, path := range []string{
		"/api", "/api/integrations", "/api/integrations/", "/api/integrations/novel", "/api/integrations/novels/",
		"/api/integrations/posts/1",
		"/API/integrations/novels", "/api/integrations/Novels", "/api/integrations/novels%20", "/favicon.ico", "/.env",
		"/index.php",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
				request := p.Request(path, Key(), []byte("{}"))
				request.Method = method
				problem := s.Send(t, request).WantProblem(t, 404, "not_found")
				if problem.Retryable {
					t.Error("a wrong path is called retryable")
				}
			}
		})
	}
}

func TestMethodsThatAPathDoesNotKnow(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	for _, path := range []string{NovelsPath, PostsPath} {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodDelete, "BREW"} {
			t.Run(method+" "+path, func(t *testing.T) {
				t.Parallel()
				response := s.Send(t, Request{Method: method, Path: path})
				response.WantProblem(t, 405, "method_not_allowed")
				if allow := response.Header.Get("Allow"); !strings.Contains(allow, http.MethodPost) ||
					strings.Contains(allow, method) {
					t.Errorf("Allow %q, want POST and not %s", allow, method)
				}
			})
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/openapi.yaml"} {
		response := s.Send(t, Request{Method: http.MethodPost, Path: path})
		response.WantProblem(t, 405, "method_not_allowed")
		if allow := response.Header.Get("Allow"); !strings.Contains(allow, http.MethodGet) {
			t.Errorf("%s: Allow %q, want GET", path, allow)
		}
	}
}

func TestRequestIDIsEchoed(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewPartner(t)
	requests := map[string]func() Request{
		"success": func() Request {
			return p.Request(NovelsPath, Key(), Fields{"novel": Unique("ID")}.JSON(t))
		},
		"problem": func() Request { return p.Request(NovelsPath, Key(), []byte("{}")) },
		"unauthorized": func() Request {
			return Request{Method: http.MethodPost, Path: PostsPath}
		},
		"unknown path": func() Request { return Request{Method: http.MethodGet, Path: "/nowhere"} },
		"wrong method": func() Request { return Request{Method: http.MethodGet, Path: PostsPath} },
		"health":       func() Request { return Request{Method: http.MethodGet, Path: "/healthz"} },
	}
	for name, newRequest := range requests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, kept := range []string{"x", "run-17/42", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", strings.Repeat("i", 128)} {
				request := newRequest()
				request.Header = http.Header{"X-Request-Id": {kept}}
				if got := s.Send(t, request).Header.Get("X-Request-Id"); got != kept {
					t.Errorf("request ID %q, want %q", got, kept)
				}
			}
			for _, replaced := range []string{"", "a b", "tab\there", "é", strings.Repeat("i", 129)} {
				request := newRequest()
				request.Header = http.Header{"X-Request-Id": {replaced}}
				request.Beyond = true // the description does not allow these, the service replaces them
				wantNewID(t, s.Send(t, request))
			}
			first, second := wantNewID(t, s.Send(t, newRequest())), wantNewID(t, s.Send(t, newRequest()))
			if first == second {
				t.Errorf("two requests share the ID %s", first)
			}
		})
	}
}

func wantNewID(t *testing.T, response Response) string {
	t.Helper()
	id := response.Header.Get("X-Request-Id")
	if parsed, err := uuid.Parse(id); err != nil || parsed.Version() != 7 {
		t.Errorf("request ID %q, want a UUID of version 7", id)
	}
	return id
}

func TestLimitHeadersComeWithAuthentication(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewPartner(t)
	for name, change := range map[string]func(*Request){
		"415":      func(r *Request) { r.ContentType = "" },
		"413":      func(r *Request) { r.Body = make([]byte, 40_000) },
		"400 key":  func(r *Request) { r.Key = "" },
		"400 body": func(*Request) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for path, limit := range map[string]string{NovelsPath: `"novels"`, PostsPath: `"posts"`} {
				request := p.Request(path, Key(), []byte("{}"))
				change(&request)
				response := s.Send(t, request)
				for _, header := range []string{"RateLimit", "RateLimit-Policy"} {
					if got := response.Header.Get(header); !strings.Contains(got, limit) {
						t.Errorf("%s: %s %q, want it for %s", path, header, got, limit)
					}
				}
			}
		})
	}
	t.Run("not without", func(t *testing.T) {
		t.Parallel()
		response := s.Send(t, Request{Method: http.MethodPost, Path: PostsPath})
		if response.Header.Get("RateLimit")+response.Header.Get("RateLimit-Policy") != "" {
			t.Errorf("limits of nobody: %v", response.Header)
		}
	})
}
