package e2e_test

import (
	"net/http"
	"testing"
	"time"
)

// Person is a member of staff or an auditor with one of their keys.
type Person struct {
	KeyID     string     `json:"keyId"`
	Role      string     `json:"role"`
	Name      string     `json:"name"`
	APIKey    string     `json:"apiKey"`
	Prefix    string     `json:"prefix"`
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
	var revoked struct {
		KeyID     string     `json:"keyId"`
		RevokedAt *time.Time `json:"revokedAt"`
	}
	p.Service.runJSON(t, &revoked, p.Role, "revoke", p.KeyID, "--reason", "test")
	if revoked.KeyID != p.KeyID || revoked.RevokedAt == nil {
		t.Errorf("revoked %+v, want key %s with a time", revoked, p.KeyID)
	}
}

// Get asks for what is at the path.
func (p *Person) Get(t testing.TB, path string) Response {
	t.Helper()
	return p.Service.Send(t, Request{Method: http.MethodGet, Path: path, Bearer: p.APIKey})
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

// Do sends a command of staff, wants the status, and returns the answer. A POST gets a key of its own.
func (p *Person) Do(t testing.TB, status int, method, path string, body Fields) map[string]any {
	t.Helper()
	request := Request{Method: method, Path: "/api/admin/" + path, Bearer: p.APIKey}
	if body != nil {
		request.ContentType, request.Body = "application/json", body.JSON(t)
	}
	if method == http.MethodPost {
		request.Key = Key()
	}
	response := p.Service.Send(t, request)
	var answer map[string]any
	if response.Status == http.StatusNoContent && status == response.Status {
		return nil
	}
	response.WantJSON(t, status, &answer)
	return answer
}
