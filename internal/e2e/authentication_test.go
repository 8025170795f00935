package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"novelgate/internal/apikey"
	"novelgate/internal/testdb"
)

func TestKeyInTheQueryIsNoKey(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	request := p.Request(NovelsPath+"?access_token="+p.APIKey, Key(), []byte(`{"novel":"x"}`))
	request.Bearer = ""
	p.Service.Send(t, request).WantProblem(t, 401, "unauthorized")
}

func TestSeveralLiveKeysForRotation(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewPartner(t)
	issued := s.IssueKey(t, p.IntegrationID)
	if issued.IntegrationID != p.IntegrationID || issued.KeyID == p.KeyID || issued.ExpiresAt != nil {
		t.Errorf("issued %+v for integration %s", issued, p.IntegrationID)
	}
	if !strings.HasPrefix(issued.APIKey, issued.Prefix) || len(issued.Prefix) != 8 {
		t.Errorf("prefix %q, want the first 8 characters of the key", issued.Prefix)
	}
	second := &Partner{NewIntegration: p.NewIntegration, Service: s}
	second.APIKey = issued.APIKey

	title := Unique("Rotation")
	first := p.Upsert(t, "same-key", Fields{"novel": title}).WantNovel(t, 201)
	again := second.Upsert(t, "same-key", Fields{"novel": title})
	again.WantReplayed(t, true, false) // idempotency keys belong to the integration, not to the API key
	if got := again.WantNovel(t, 200); got.NovelID != first.NovelID {
		t.Errorf("novel %s, want %s", got.NovelID, first.NovelID)
	}

	revoked := s.RevokeKey(t, p.KeyID)
	if revoked.KeyID != p.KeyID || revoked.RevokedAt == nil {
		t.Errorf("revoked %+v, want key %s with a time", revoked, p.KeyID)
	}
	testdb.Eventually(t, "the revoked key stops working", func() bool {
		return p.Upsert(t, "same-key", Fields{"novel": title}).Status == http.StatusUnauthorized
	})
	second.Upsert(t, "same-key", Fields{"novel": title}).WantNovel(t, 200)
}

func newKey(t *testing.T, kind apikey.Kind) string {
	t.Helper()
	secret, err := apikey.New(kind)
	if err != nil {
		t.Fatalf("make key: %v", err)
	}
	return secret.Reveal()
}

// tamper changes one character in the middle of the key.
func tamper(key string) string {
	i := len(key) / 2
	replacement := "A"
	if key[i] == 'A' {
		replacement = "B"
	}
	return key[:i] + replacement + key[i+1:]
}
