package e2e_test

import (
	"testing"
	"time"
)

// Integration is what `integration show --json` prints.
type Integration struct {
	IntegrationID   string    `json:"integrationId"`
	Name            string    `json:"name"`
	Enabled         bool      `json:"enabled"`
	Capabilities    []string  `json:"capabilities"`
	PostsPerMinute  int       `json:"postsPerMinute"`
	NovelsPerMinute int       `json:"novelsPerMinute"`
	NovelUpdates    *int      `json:"novelUpdatesPerMinute"`
	Review          bool      `json:"review"`
	CreatedAt       time.Time `json:"createdAt"`
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
	KeyID         string     `json:"keyId"`
	IntegrationID string     `json:"integrationId"`
	APIKey        string     `json:"apiKey"`
	Prefix        string     `json:"prefix"`
	ExpiresAt     *time.Time `json:"expiresAt"`
}

// ListedKey is one element of what `key list --json` prints.
type ListedKey struct {
	KeyID         string     `json:"keyId"`
	IntegrationID string     `json:"integrationId"`
	Prefix        string     `json:"prefix"`
	CreatedAt     time.Time  `json:"createdAt"`
	ExpiresAt     *time.Time `json:"expiresAt"`
	RevokedAt     *time.Time `json:"revokedAt"`
	LastUsedAt    *time.Time `json:"lastUsedAt"`
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

// Integration runs `integration VERB NAME` with the verbs that print an integration: show, enable, disable, limit,
// capability, review.
func (s *Service) Integration(t testing.TB, verb, name string, flags ...string) Integration {
	t.Helper()
	var shown Integration
	s.runJSON(t, &shown, append([]string{"integration", verb, name}, flags...)...)
	return shown
}

// Integrations runs `integration list`.
func (s *Service) Integrations(t testing.TB) []Integration {
	t.Helper()
	var listed []Integration
	s.runJSON(t, &listed, "integration", "list")
	return listed
}

// IssueKey runs `key issue`.
func (s *Service) IssueKey(t testing.TB, integration string, flags ...string) IssuedKey {
	t.Helper()
	var issued IssuedKey
	s.runJSON(t, &issued, append([]string{"key", "issue", integration}, flags...)...)
	return issued
}

// RevokeKey runs `key revoke`.
func (s *Service) RevokeKey(t testing.TB, keyID string) ListedKey {
	t.Helper()
	var revoked ListedKey
	s.runJSON(t, &revoked, "key", "revoke", keyID, "--reason", "test")
	return revoked
}

// Keys runs `key list`.
func (s *Service) Keys(t testing.TB, integration string) []ListedKey {
	t.Helper()
	var listed []ListedKey
	s.runJSON(t, &listed, "key", "list", integration)
	return listed
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

// Novels runs `novel list`.
func (s *Service) Novels(t testing.TB, flags ...string) []StoredNovel {
	t.Helper()
	var listed []StoredNovel
	s.runJSON(t, &listed, append([]string{"novel", "list"}, flags...)...)
	return listed
}

// Projection is one element of what `projection list --json` prints.
type Projection struct {
	Name       string  `json:"name"`
	State      string  `json:"state"` // running, failed or paused
	LagEvents  int64   `json:"lagEvents"`
	LagSeconds float64 `json:"lagSeconds"`
	Error      *string `json:"error"`
}

// Projections runs `projection list`.
func (s *Service) Projections(t testing.TB) []Projection {
	t.Helper()
	var listed []Projection
	s.runJSON(t, &listed, "projection", "list")
	return listed
}
