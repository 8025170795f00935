package e2e_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/internal/testdb"
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

// Partner is an integration with one of its API keys.
type Partner struct {
	NewIntegration
	Service *Service
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

// NewPartnerWith registers an integration with exactly the settings.
func (s *Service) NewPartnerWith(t testing.TB, settings Fields) *Partner {
	t.Helper()
	s.registrar.Do(func() { s.registers = s.NewStaff(t) })
	p := &Partner{Service: s}
	wanted := Fields{"name": Unique("partner")}.With(settings)
	s.registers.Post(t, "/api/admin/integrations", Key(), wanted).WantJSON(t, 201, &p.NewIntegration)
	return p
}

// Unique returns the name with a unique suffix in lower-case hexadecimal.
func Unique(name string) string {
	id := uuid.New()
	return name + " " + strings.ReplaceAll(id.String(), "-", "")[:16]
}

// Key returns a new Idempotency-Key.
func Key() string { return "key-" + uuid.NewString() }

// Request returns a complete request for the operation.
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

// Inquire sends a GET with the partner's key.
func (p *Partner) Inquire(t testing.TB, path string) Response {
	t.Helper()
	return p.Service.Send(t, Request{Path: path, Bearer: p.APIKey})
}

// Ask sends a request that counts as a query, and repeats it while the limit of queries refuses it: a test that polls
// reaches this limit.
func (p *Partner) Ask(t testing.TB, r Request) (response Response) {
	t.Helper()
	testdb.Eventually(t, r.Path+" is answered", func() bool {
		response = p.Service.Send(t, r)
		return response.Status != http.StatusTooManyRequests
	})
	return response
}

// Person is a member of staff or an auditor with one of their keys.
type Person struct {
	KeyID     string     `json:"keyId"`
	Role      string     `json:"role"`
	Name      string     `json:"name"`
	APIKey    string     `json:"apiKey"`
	ExpiresAt *time.Time `json:"expiresAt"`

	Service *Service `json:"-"`
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
	created := &Person{Service: s}
	s.runJSON(t, created, append([]string{role, "create", Unique(role)}, flags...)...)
	return created
}

// Revoke runs `staff revoke` or `auditor revoke` with the person's key.
func (p *Person) Revoke(t testing.TB) {
	t.Helper()
	p.Service.MustCLI(t, p.Role, "revoke", p.KeyID, "--reason", "test")
}

// Get sends a GET with the person's key.
func (p *Person) Get(t testing.TB, path string) Response {
	t.Helper()
	return p.Service.Send(t, Request{Path: path, Bearer: p.APIKey})
}

// Post sends a command.
func (p *Person) Post(t testing.TB, path, key string, body Fields) Response {
	t.Helper()
	return p.Service.Send(t, Request{
		Method: http.MethodPost, Path: path, Bearer: p.APIKey, Key: key, ContentType: "application/json", Body: body.JSON(t),
	})
}

// Put sends a PUT.
func (p *Person) Put(t testing.TB, path string, body Fields) Response {
	t.Helper()
	return p.Service.Send(t,
		Request{Method: http.MethodPut, Path: path, Bearer: p.APIKey, ContentType: "application/json", Body: body.JSON(t)})
}

// Delete sends a DELETE.
func (p *Person) Delete(t testing.TB, path string) Response {
	t.Helper()
	return p.Service.Send(t, Request{Method: http.MethodDelete, Path: path, Bearer: p.APIKey})
}

// Integration is what `integration show --json` prints.
type Integration struct {
	IntegrationID string `json:"integrationId"`
	Name          string `json:"name"`
}

// NewIntegration is what `integration create --json` prints.
type NewIntegration struct {
	IntegrationID string `json:"integrationId"`
	Name          string `json:"name"`
	KeyID         string `json:"keyId"`
	APIKey        string `json:"apiKey"`
}

// IssuedKey is what `key issue --json` prints.
type IssuedKey struct {
	KeyID     string     `json:"keyId"`
	APIKey    string     `json:"apiKey"`
	ExpiresAt *time.Time `json:"expiresAt"`
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

// CreateIntegration runs `integration create`.
func (s *Service) CreateIntegration(t testing.TB, name string, flags ...string) NewIntegration {
	t.Helper()
	var created NewIntegration
	s.runJSON(t, &created, append([]string{"integration", "create", name}, flags...)...)
	return created
}

// Integration runs `integration VERB NAME`.
func (s *Service) Integration(t testing.TB, verb, name string, flags ...string) {
	t.Helper()
	s.MustCLI(t, append([]string{"integration", verb, name}, flags...)...)
}

// IssueKey runs `key issue`.
func (s *Service) IssueKey(t testing.TB, integration string, flags ...string) IssuedKey {
	t.Helper()
	var issued IssuedKey
	s.runJSON(t, &issued, append([]string{"key", "issue", integration}, flags...)...)
	return issued
}

// RevokeKey runs `key revoke`.
func (s *Service) RevokeKey(t testing.TB, keyID string) {
	t.Helper()
	s.MustCLI(t, "key", "revoke", keyID, "--reason", "test")
}

// Moderate runs `novel VERB TITLE` with the verbs publish, approve and reject.
func (s *Service) Moderate(t testing.TB, verb, title string) StoredNovel {
	t.Helper()
	var novel StoredNovel
	s.runJSON(t, &novel, "novel", verb, title, "--reason", "test")
	return novel
}

// Novel runs `novel show`.
func (s *Service) Novel(t testing.TB, title string) StoredNovel {
	t.Helper()
	var novel StoredNovel
	s.runJSON(t, &novel, "novel", "show", title)
	return novel
}

// Projection is one element of what `projection list --json` prints.
type Projection struct {
	Name  string  `json:"name"`
	State string  `json:"state"` // running, failed or paused
	Error *string `json:"error"`
}

// Projections runs `projection list`.
func (s *Service) Projections(t testing.TB) []Projection {
	t.Helper()
	var listed []Projection
	s.runJSON(t, &listed, "projection", "list")
	return listed
}
