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
	able, unable, disabled := s.NewPartner(t), s.NewPartnerWith(t, nil), s.NewPartner(t)
	s.MustCLI(t, "integration", "disable", disabled.IntegrationID)
	testdb.Eventually(t, "the integration is disabled", func() bool {
		return s.Send(t, disabled.Request(PostsPath, Key(), []byte("{}"))).Status == http.StatusForbidden
	})
	type change func(r *Request)
	var (
		path    change = func(r *Request) { r.Path += "-x" }
		method  change = func(r *Request) { r.Method = http.MethodPut }
		apiKey  change = func(r *Request) { r.Bearer = "wrong" }
		media   change = func(r *Request) { r.ContentType = "text/plain" }
		size    change = func(r *Request) { r.Body = bytes.Repeat([]byte("x"), 40_000) }
		chunked change = func(r *Request) { r.Chunked = true }
		key     change = func(r *Request) { r.Key = "" }
		json    change = func(r *Request) { r.Body = []byte("{") }
		fields  change = func(r *Request) { r.Body = []byte("{}") }
	)
	for _, test := range []struct {
		partner *Partner
		changes []change // the first one has to win
		status  int
		code    string
	}{
		{able, []change{path, apiKey, media, size, key}, 404, "not_found"},
		{able, []change{method, apiKey}, 405, "method_not_allowed"},
		{able, []change{apiKey, media}, 401, "unauthorized"},
		{able, []change{apiKey, size}, 401, "unauthorized"},
		{able, []change{apiKey, key}, 401, "unauthorized"},
		{able, []change{media, size}, 415, "unsupported_media_type"},
		{unable, []change{media}, 415, "unsupported_media_type"},
		{unable, []change{size}, 413, "payload_too_large"},
		{unable, []change{size, chunked}, 413, "payload_too_large"},
		{disabled, []change{size}, 413, "payload_too_large"},
		{able, []change{size, key}, 413, "payload_too_large"},
		{unable, []change{key}, 403, "capability_disabled"},
		{unable, []change{json}, 403, "capability_disabled"},
		{disabled, []change{key}, 403, "capability_disabled"},
		{able, []change{key, json}, 400, "invalid_idempotency_key"},
		{able, []change{key, fields}, 400, "invalid_idempotency_key"},
	} {
		for _, operation := range []string{NovelsPath, PostsPath} {
			request := test.partner.Request(operation, Key(), []byte("{}"))
			for _, change := range test.changes {
				change(&request)
			}
			s.Send(t, request).WantProblem(t, test.status, test.code)
		}
	}
}
