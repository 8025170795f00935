package blackbox_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"novelgate/internal/blackbox"
)

func TestEachOperationNeedsItsCapability(t *testing.T) {
	t.Parallel()
	s := blackbox.Shared(t)
	for name, test := range map[string]struct {
		capabilities  []string
		novels, posts int // statuses
	}{
		"none":   {[]string{}, 403, 403},
		"novels": {[]string{"novels"}, 201, 403},
		"posts":  {[]string{"posts"}, 403, 201},
		"both":   {[]string{"novels", "posts"}, 201, 201},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			title := blackbox.Unique("Known")
			s.Moderate(t, "publish", title)
			p := s.NewPartnerWith(t, blackbox.Fields{"capabilities": test.capabilities})
			wantStatus(t, p.Upsert(t, blackbox.Key(), blackbox.Fields{"novel": blackbox.Unique("New")}), test.novels,
				"capability_disabled")
			wantStatus(t, p.Import(t, blackbox.Key(), blackbox.Comment(title)), test.posts, "capability_disabled")
		})
	}
}

func TestCapabilitiesCanBeSwitched(t *testing.T) {
	t.Parallel()
	s := blackbox.Shared(t)
	p := s.NewPostsPartner(t)
	title, key := blackbox.Unique("Switched"), blackbox.Key()
	p.Upsert(t, key, blackbox.Fields{"novel": title}).WantProblem(t, 403, "capability_disabled")

	shown := s.Integration(t, "capability", p.IntegrationID, "--enable", "novels", "--disable", "posts")
	if !slices.Equal(shown.Capabilities, []string{"novels"}) {
		t.Errorf("capabilities %v, want novels", shown.Capabilities)
	}
	blackbox.Eventually(t, blackbox.Soon, "the capability works, with the key that was refused", func() bool {
		return p.Upsert(t, key, blackbox.Fields{"novel": title}).Status == http.StatusCreated
	})
	blackbox.Eventually(t, blackbox.Soon, "the other capability is gone", func() bool {
		return p.Import(t, blackbox.Key(), blackbox.Comment(title)).Status == http.StatusForbidden
	})
}

func TestDisabledIntegration(t *testing.T) {
	t.Parallel()
	s := blackbox.Shared(t)
	p := s.NewPartner(t)
	title := blackbox.Unique("Disabled")
	p.Import(t, "kept", blackbox.Comment(title)).WantPost(t, 201)

	if shown := s.Integration(t, "disable", p.Name); shown.Enabled || shown.IntegrationID != p.IntegrationID {
		t.Errorf("disable shows %+v", shown)
	}
	blackbox.Eventually(t, blackbox.Soon, "the disabled integration is refused", func() bool {
		return p.Import(t, blackbox.Key(), blackbox.Comment(title)).Status == http.StatusForbidden
	})
	for path, body := range map[string]blackbox.Fields{
		blackbox.NovelsPath: {"novel": title}, blackbox.PostsPath: blackbox.Comment(title),
	} {
		problem := p.Service.Send(t, p.Request(path, "kept", body.JSON(t))).WantProblem(t, 403, "capability_disabled")
		if !strings.Contains(strings.ToLower(problem.Detail), "integration is disabled") {
			t.Errorf("detail %q does not say that the integration is disabled", problem.Detail)
		}
	}

	if shown := s.Integration(t, "enable", p.IntegrationID); !shown.Enabled {
		t.Errorf("enable shows %+v", shown)
	}
	blackbox.Eventually(t, blackbox.Soon, "the enabled integration works again", func() bool {
		return p.Import(t, "kept", blackbox.Comment(title)).Status == http.StatusOK
	})
}

// wantStatus wants success with the status, or a problem with the status and the code.
func wantStatus(t *testing.T, response blackbox.Response, status int, code string) {
	t.Helper()
	switch {
	case status >= http.StatusBadRequest:
		response.WantProblem(t, status, code)
	case response.Status != status:
		t.Errorf("status %d, want %d\n%s", response.Status, status, response.Body)
	}
}
