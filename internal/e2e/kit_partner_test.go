package e2e_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// Fields is a JSON object under construction.
type Fields map[string]any

// With returns a copy with the other fields added or replaced.
func (f Fields) With(other Fields) Fields {
	joined := make(Fields, len(f)+len(other))
	for _, part := range []Fields{f, other} {
		for name, value := range part {
			joined[name] = value
		}
	}
	return joined
}

// JSON returns the object's text, with characters as they are instead of escapes.
func (f Fields) JSON(t testing.TB) []byte {
	t.Helper()
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(f); err != nil {
		t.Fatalf("encode body: %v", err)
	}
	return []byte(strings.TrimSuffix(text.String(), "\n"))
}

// Partner is an integration with one of its API keys.
type Partner struct {
	NewIntegration
	Service *Service
}

// NewPartner registers an integration with both capabilities, limits out of the way, and further settings.
func (s *Service) NewPartner(t testing.TB, settings ...Fields) *Partner {
	t.Helper()
	all := Fields{"capabilities": []string{"novels", "posts"}, "postsPerMinute": 100_000, "novelsPerMinute": 100_000}
	for _, further := range settings {
		all = all.With(further)
	}
	return s.NewPartnerWith(t, all)
}

// NewPostsPartner registers an integration that may import comments but not create novels.
func (s *Service) NewPostsPartner(t testing.TB) *Partner {
	t.Helper()
	return s.NewPartner(t, Fields{"capabilities": []string{"posts"}})
}

// NewPartnerWith registers an integration with exactly the settings.
func (s *Service) NewPartnerWith(t testing.TB, settings Fields) *Partner {
	t.Helper()
	s.registrar.Do(func() { s.registers = s.NewStaff(t) })
	p := &Partner{Service: s}
	wanted := Fields{"name": Unique("partner")}.With(settings)
	s.registers.Post(t, "/api/admin/integrations", Key(), wanted).WantJSON(t, 201, &p.NewIntegration)
	return p
}

// Unique returns the name followed by a suffix in lower-case hexadecimal that no other call returns.
func Unique(name string) string {
	id := uuid.New()
	return name + " " + strings.ReplaceAll(id.String(), "-", "")[:16]
}

// Key returns an Idempotency-Key that was never used before.
func Key() string { return "key-" + uuid.NewString() }

// Request returns a complete request for the operation, to be changed and sent.
func (p *Partner) Request(path, key string, body []byte) Request {
	return Request{
		Method: http.MethodPost, Path: path, Bearer: p.APIKey, Key: key, ContentType: "application/json", Body: body,
	}
}

// Upsert sends the novel.
func (p *Partner) Upsert(t testing.TB, key string, novel Fields) Response {
	t.Helper()
	return p.Service.Send(t, p.Request(NovelsPath, key, novel.JSON(t)))
}

// Import sends the comment.
func (p *Partner) Import(t testing.TB, key string, post Fields) Response {
	t.Helper()
	return p.Service.Send(t, p.Request(PostsPath, key, post.JSON(t)))
}

// Comment returns the fields of a valid comment on the novel.
func Comment(novel string) Fields {
	return Fields{"uuid": "member-1", "username": "Marlow", "novel": novel, "content": "A comment."}
}

// Inquire asks for what is at the path.
func (p *Partner) Inquire(t testing.TB, path string) Response {
	t.Helper()
	return p.Service.Send(t, Request{Method: http.MethodGet, Path: path, Bearer: p.APIKey})
}
