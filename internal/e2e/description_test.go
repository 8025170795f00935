package e2e_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// complaints is a testing.TB that collects failures instead of failing.
type complaints struct {
	testing.TB
	said []string
}

func (c *complaints) Errorf(format string, args ...any) {
	c.said = append(c.said, fmt.Sprintf(format, args...))
}

// exchange is one request and the answer that a service might give. Each test below spoils a correct one.
type exchange struct {
	method, path, body string
	status             int
	header             map[string]string
	answer             string
}

func imported() exchange {
	return exchange{
		method: http.MethodPost, path: PostsPath, body: `{"uuid":"u","username":"n","novel":"t","content":"c"}`,
		status: 201,
		header: map[string]string{
			"Content-Type": "application/json", "X-Request-Id": "r", "RateLimit": `"posts";r=59;t=60`,
			"RateLimit-Policy": `"posts";q=60;w=60`,
			"Location":         "https://example.org/novels/t",
		},
		answer: `{"created":true,"postId":"3f1c1f0e-3d55-5a86-9d2a-1f5f0f7c1b01","threadId":"7a0c1d1c-6a0e-5d4e-8f37-9a9a2c6d4c02",
			"parentPostId":null,"url":"https://example.org/novels/t/discussion?post=3f1c1f0e-3d55-5a86-9d2a-1f5f0f7c1b01#post-3f1c1f0e-3d55-5a86-9d2a-1f5f0f7c1b01"}`,
	}
}

func problem(status int, code string) exchange {
	e := imported()
	e.status = status
	delete(e.header, "Location")
	e.header["Content-Type"] = "application/problem+json"
	e.answer = fmt.Sprintf(`{"type":"about:blank","title":"T","status":%d,"detail":"D","code":%q,"requestId":"r","retryable":false}`, status, code)
	return e
}

// TestDescriptionIsEnforced shows that the check behind every other test is alive.
func TestDescriptionIsEnforced(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		base  exchange
		spoil func(*exchange)
		right bool
	}{
		"created":         {imported(), func(*exchange) {}, true},
		"invalid request": {problem(400, "invalid_request"), func(*exchange) {}, true},
		"further member": {
			imported(), func(e *exchange) { e.answer = strings.Replace(e.answer, "{", `{"more":1,`, 1) }, true,
		},
		"unknown path": {problem(404, "not_found"), func(e *exchange) {
			e.path = "/nowhere"
			delete(e.header, "RateLimit")
			delete(e.header, "RateLimit-Policy")
		}, true},
		"unknown method": {problem(405, "method_not_allowed"), func(e *exchange) {
			e.method, e.header["Allow"] = "BREW", "POST"
			delete(e.header, "RateLimit")
			delete(e.header, "RateLimit-Policy")
		}, true},

		"undocumented status": {imported(), func(e *exchange) { e.status = 202 }, false},
		"defect":              {problem(500, "internal"), func(*exchange) {}, false},
		"missing header":      {imported(), func(e *exchange) { delete(e.header, "RateLimit") }, false},
		"undocumented header": {imported(), func(e *exchange) { e.header["Idempotent-Replayed"] = "true" }, false},
		"missing member": {
			imported(), func(e *exchange) { e.answer = strings.Replace(e.answer, "parentPostId", "parent", 1) }, false,
		},
		"wrong constant": {
			imported(), func(e *exchange) { e.answer = strings.Replace(e.answer, "true", "false", 1) }, false,
		},
		"no JSON":                   {imported(), func(e *exchange) { e.answer = "created" }, false},
		"problem with a wrong code": {problem(404, "novel_rejected"), func(*exchange) {}, false},
		"problem without request ID": {
			problem(404, "novel_not_found"), func(e *exchange) { e.answer = strings.Replace(e.answer, "requestId", "id", 1) },
			false,
		},
		"unknown path, bare": {
			problem(404, "not_found"), func(e *exchange) { e.path, e.answer = "/nowhere", "404 page not found" }, false,
		},
		"invalid request accepted": {
			imported(), func(e *exchange) { e.body = `{"uuid":"u","username":"n","novel":"t"}` }, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.base.header = maps.Clone(test.base.header)
			test.spoil(&test.base)
			heard := test.base.play(t)
			if test.right && len(heard) > 0 {
				t.Errorf("a correct exchange is called wrong: %s", heard[0])
			}
			if !test.right && len(heard) == 0 {
				t.Error("nothing was noticed")
			}
		})
	}
}

// play serves the answer, sends the request and returns the failures.
func (e exchange) play(t *testing.T) []string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range e.header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(e.status)
		_, _ = w.Write([]byte(e.answer)) // a failure shows in the client
	}))
	defer server.Close()
	recorder := &complaints{TB: t}
	s := Attach(server.URL)
	s.Send(recorder, Request{
		Method: e.method, Path: e.path, Bearer: "ngp_x", Key: "k", ContentType: "application/json", Body: []byte(e.body),
		Header: http.Header{"Connection": {"close"}},
	})
	return recorder.said
}
