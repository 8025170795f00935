package e2e_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"novelgate/internal/testdb"
)

func TestCapabilitiesCanBeSwitched(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewPostsPartner(t)
	title, key := Unique("Switched"), Key()
	p.Upsert(t, key, Fields{"novel": title}).WantProblem(t, 403, "capability_disabled")

	shown := s.Integration(t, "capability", p.IntegrationID, "--enable", "novels", "--disable", "posts")
	if !slices.Equal(shown.Capabilities, []string{"novels"}) {
		t.Errorf("capabilities %v, want novels", shown.Capabilities)
	}
	testdb.Eventually(t, "the capability works, with the key that was refused", func() bool {
		return p.Upsert(t, key, Fields{"novel": title}).Status == http.StatusCreated
	})
	testdb.Eventually(t, "the other capability is gone", func() bool {
		return p.Import(t, Key(), Comment(title)).Status == http.StatusForbidden
	})
}

func TestDisabledIntegration(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewPartner(t)
	title := Unique("Disabled")
	p.Import(t, "kept", Comment(title)).WantPost(t, 201)

	if shown := s.Integration(t, "disable", p.Name); shown.Enabled || shown.IntegrationID != p.IntegrationID {
		t.Errorf("disable shows %+v", shown)
	}
	testdb.Eventually(t, "the disabled integration is refused", func() bool {
		return p.Import(t, Key(), Comment(title)).Status == http.StatusForbidden
	})
	for path, body := range map[string]Fields{
		NovelsPath: {"novel": title}, PostsPath: Comment(title),
	} {
		problem := p.Service.Send(t, p.Request(path, "kept", body.JSON(t))).WantProblem(t, 403, "capability_disabled")
		if !strings.Contains(strings.ToLower(problem.Detail), "integration is disabled") {
			t.Errorf("detail %q does not say that the integration is disabled", problem.Detail)
		}
	}

	if shown := s.Integration(t, "enable", p.IntegrationID); !shown.Enabled {
		t.Errorf("enable shows %+v", shown)
	}
	testdb.Eventually(t, "the enabled integration works again", func() bool {
		return p.Import(t, "kept", Comment(title)).Status == http.StatusOK
	})
}
