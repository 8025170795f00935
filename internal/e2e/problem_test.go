package e2e_test

import (
	"net/http"
	"strings"
	"testing"
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
			request := newRequest()
			request.Header = http.Header{"X-Request-Id": {"run-17/42"}}
			if got := s.Send(t, request).Header.Get("X-Request-Id"); got != "run-17/42" {
				t.Errorf("request ID %q, want the one of the client", got)
			}
			if got := s.Send(t, newRequest()).Header.Get("X-Request-Id"); got == "" {
				t.Error("no request ID")
			}
		})
	}
}
