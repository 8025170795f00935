package e2e_test

import (
	"bytes"
	"net/http"
	"testing"

	"novelgate/internal/testdb"
)

// The order is: route, 401, 415, 413, 403, key, body, 429 (posts), replay, decision. Each case breaks two neighbouring
// rules, or two that are further apart, and the first of them has to win.
func TestCheckOrder(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	able, unable := s.NewPartner(t), s.NewPartnerWith(t, nil)
	disabled := s.NewPartner(t)
	s.Integration(t, "disable", disabled.IntegrationID)
	testdb.Eventually(t, "the integration is disabled", func() bool {
		return s.Send(t, disabled.Request(PostsPath, Key(), []byte("{}"))).Status == http.StatusForbidden
	})
	large := bytes.Repeat([]byte("x"), 40_000)

	for name, test := range map[string]struct {
		partner *Partner
		change  func(*Request)
		status  int
		code    string
	}{
		"path before API key": {
			able, func(r *Request) { r.Path, r.Bearer = r.Path+"/x", "" }, 404, "not_found",
		},
		"method before API key": {
			able, func(r *Request) { r.Method, r.Bearer = http.MethodPut, "" }, 405, "method_not_allowed",
		},
		"path before everything": {
			able, func(r *Request) { *r = Request{Method: "POST", Path: "/nowhere", Body: large} }, 404,
			"not_found",
		},
		"API key before media type": {
			able, func(r *Request) { r.Bearer, r.ContentType = "wrong", "text/plain" }, 401, "unauthorized",
		},
		"API key before size": {
			able, func(r *Request) { r.Bearer, r.Body = "wrong", large }, 401, "unauthorized",
		},
		"API key before key": {
			able, func(r *Request) { r.Bearer, r.Key = "wrong", "" }, 401, "unauthorized",
		},
		"media type before size": {
			able, func(r *Request) { r.ContentType, r.Body = "text/plain", large }, 415, "unsupported_media_type",
		},
		"media type before capability": {
			unable, func(r *Request) { r.ContentType = "text/plain" }, 415, "unsupported_media_type",
		},
		"size before capability": {unable, func(r *Request) { r.Body = large }, 413, "payload_too_large"},
		"chunked size before capability": {
			unable, func(r *Request) { r.Body, r.Chunked = large, true }, 413, "payload_too_large",
		},
		"size before disabled": {disabled, func(r *Request) { r.Body = large }, 413, "payload_too_large"},
		"size before key": {
			able, func(r *Request) { r.Body, r.Key = large, "" }, 413, "payload_too_large",
		},
		"capability before key": {unable, func(r *Request) { r.Key = "" }, 403, "capability_disabled"},
		"capability before body": {
			unable, func(r *Request) { r.Body = []byte("{") }, 403, "capability_disabled",
		},
		"disabled before key": {disabled, func(r *Request) { r.Key = "" }, 403, "capability_disabled"},
		"key before JSON": {
			able, func(r *Request) { r.Key, r.Body = "", []byte("{") }, 400, "invalid_idempotency_key",
		},
		"key before fields": {
			able, func(r *Request) { r.Key, r.Body = "a b", []byte("{}") }, 400, "invalid_idempotency_key",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, path := range []string{NovelsPath, PostsPath} {
				request := test.partner.Request(path, Key(), []byte("{}"))
				test.change(&request)
				s.Send(t, request).WantProblem(t, test.status, test.code)
			}
		})
	}
}
