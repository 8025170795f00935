package e2e_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"novelgate/internal/auth"
	"novelgate/internal/testdb"
)

// Fields is a JSON object under construction.
type Fields map[string]any

// With returns a copy with the other fields added or replaced.
func (f Fields) With(other Fields) Fields {
	joined := maps.Clone(f)
	maps.Copy(joined, other)
	return joined
}

// JSON returns the text of the object, without escapes.
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

// caller sends requests to a service with an API key.
type caller struct {
	APIKey  string   `json:"apiKey"`
	Service *Service `json:"-"`
}

// Get sends a GET.
func (c *caller) Get(t testing.TB, path string) Response {
	t.Helper()
	return c.Service.Send(t, Request{Path: path, Bearer: c.APIKey})
}

// Delete sends a DELETE.
func (c *caller) Delete(t testing.TB, path string) Response {
	t.Helper()
	return c.Service.Send(t, Request{Method: http.MethodDelete, Path: path, Bearer: c.APIKey})
}

// Post sends a command.
func (c *caller) Post(t testing.TB, path, key string, body Fields) Response {
	t.Helper()
	return c.Service.Send(t, c.Request(path, key, body.JSON(t)))
}

// Request returns the request that sends a command.
func (c *caller) Request(path, key string, body []byte) Request {
	return Request{
		Method: http.MethodPost, Path: path, Bearer: c.APIKey, Key: key, ContentType: "application/json", Body: body,
	}
}

// Person is a member of staff or an auditor with one of their keys.
type Person struct {
	caller

	KeyID string `json:"keyId"`
	Role  string `json:"role"`
	Name  string `json:"name"`
}

// NewStaff runs `staff create`.
func (s *Service) NewStaff(t testing.TB, flags ...string) *Person {
	t.Helper()
	return s.newPerson(t, "staff", flags...)
}

// NewAuditor runs `auditor create`.
func (s *Service) NewAuditor(t testing.TB, flags ...string) *Person {
	t.Helper()
	return s.newPerson(t, "auditor", flags...)
}

func (s *Service) newPerson(t testing.TB, role string, flags ...string) *Person {
	t.Helper()
	created := &Person{caller: caller{Service: s}}
	s.runJSON(t, created, append([]string{role, "create", Unique(role)}, flags...)...)
	return created
}

// Revoke runs `staff revoke` or `auditor revoke` with the person's key.
func (p *Person) Revoke(t testing.TB) {
	t.Helper()
	p.Service.MustCLI(t, p.Role, "revoke", p.KeyID, "--reason", "test")
}

// Reject rejects a novel.
func (p *Person) Reject(t testing.TB, novelID string) {
	t.Helper()
	p.Post(t, "/api/admin/novels/"+novelID+"/reject", Key(), Fields{"reason": "no"}).WantJSON(t, 200, &struct{}{})
}

// Partner is an integration with one of its API keys.
type Partner struct {
	caller

	IntegrationID string `json:"integrationId"`
	Name          string `json:"name"`
	KeyID         string `json:"keyId"`
}

// NewPartner registers an integration with both capabilities, very high limits, and further settings.
func (s *Service) NewPartner(t testing.TB, settings ...Fields) *Partner {
	t.Helper()
	all := Fields{"capabilities": []string{"novels", "posts"}, "postsPerMinute": 100_000, "novelsPerMinute": 100_000}
	for _, further := range settings {
		all = all.With(further)
	}
	return s.NewPartnerWith(t, all)
}

// NewImporter registers an integration with all capabilities and a high limit of lines.
func (s *Service) NewImporter(t testing.TB, settings ...Fields) *Partner {
	t.Helper()
	return s.NewPartner(t, append([]Fields{{
		"capabilities": []string{"novels", "posts", "import"}, "linesPerMinute": 10_000_000,
	}}, settings...)...)
}

// NewPartnerWith registers an integration with exactly the settings.
func (s *Service) NewPartnerWith(t testing.TB, settings Fields) *Partner {
	t.Helper()
	s.registrar.Do(func() { s.registers = s.NewStaff(t) })
	p := &Partner{caller: caller{Service: s}}
	wanted := Fields{"name": Unique("partner")}.With(settings)
	s.registers.Post(t, "/api/admin/integrations", Key(), wanted).WantJSON(t, 201, p)
	return p
}

// newPartner registers a partner of a chaos test on the command line, because there may be no service yet.
func newPartner(t testing.TB, databaseURL string) *Partner {
	t.Helper()
	s := Attach("")
	s.DatabaseURL = slowly(databaseURL)
	p := &Partner{caller: caller{Service: s}}
	s.runJSON(t, p, "integration", "create", Unique("partner"), "--capability", "novels", "--capability", "posts",
		"--posts-per-minute", "10000000", "--novels-per-minute", "10000000")
	return p
}

// Upsert sends the novel.
func (p *Partner) Upsert(t testing.TB, key string, novel Fields) Response {
	t.Helper()
	return p.Post(t, NovelsPath, key, novel)
}

// Import sends the comment.
func (p *Partner) Import(t testing.TB, key string, post Fields) Response {
	t.Helper()
	return p.Post(t, PostsPath, key, post)
}

// Comment returns the fields of a valid comment on the novel.
func Comment(novel string) Fields {
	return Fields{"uuid": "member-1", "username": "Marlow", "novel": novel, "content": "A comment."}
}

// authorPath returns the path of an author for staff. The author is percent-encoded.
func (p *Partner) authorPath(author string) string {
	return "/api/admin/integrations/" + p.IntegrationID + "/authors/" + author
}

// importUntilAccepted sends a comment until it is accepted, because a request may time out on a busy machine.
func (p *Partner) importUntilAccepted(t testing.TB, key string, fields Fields) (post Post) {
	t.Helper()
	testdb.Eventually(t, "a comment is taken", func() bool {
		response := p.Import(t, key, fields)
		if response.Status == http.StatusServiceUnavailable {
			return false
		}
		post = response.WantPost(t, response.Status)
		return response.Status < 300
	})
	return post
}

// Unique returns the name with a unique suffix in lower-case hexadecimal.
func Unique(name string) string {
	id := uuid.New()
	return name + " " + strings.ReplaceAll(id.String(), "-", "")[:16]
}

// Key returns a new Idempotency-Key.
func Key() string { return "key-" + uuid.NewString() }

// newKey makes an API key that nobody was given.
func newKey(t testing.TB, kind auth.Kind) string {
	t.Helper()
	return auth.NewKey(kind).Reveal()
}

// tamper changes one character in the middle of an API key.
func tamper(key string) string {
	i := len(key) / 2
	replacement := "A"
	if key[i] == 'A' {
		replacement = "B"
	}
	return key[:i] + replacement + key[i+1:]
}

// RevokeKey runs `key revoke`.
func (s *Service) RevokeKey(t testing.TB, keyID string) {
	t.Helper()
	s.MustCLI(t, "key", "revoke", keyID, "--reason", "test")
}

// StoredNovel is what `novel show --json` prints.
type StoredNovel struct {
	NovelID       string   `json:"novelId"`
	Slug          string   `json:"slug"`
	Novel         string   `json:"novel"`
	Author        string   `json:"author"`
	Synopsis      string   `json:"synopsis"`
	CoverURL      string   `json:"coverUrl"`
	Genres        []string `json:"genres"`
	Language      string   `json:"language"`
	ReadingStatus string   `json:"readingStatus"`
	Owner         string   `json:"owner"` // an integration's ID, "host" or "none"
	State         string   `json:"state"` // approved, published, rejected, pending or free
}
